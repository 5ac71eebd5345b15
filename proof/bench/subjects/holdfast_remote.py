"""Holdfast: workers without a database, through a gateway process. The producer uses the database."""

from __future__ import annotations

from dataclasses import replace

from holdfast import TaskQueue
from proof.bench.gateway import TOKEN, Gateway
from proof.bench.subjects.holdfast import HoldfastSubject
from proof.lab.subject import Options, main

VIA = "via"
"""The variant of a worker: the address of its gateway."""


class HoldfastRemote(HoldfastSubject):
    """A gateway beside the producer; its address travels to the workers in their options."""

    def __init__(self, options: Options) -> None:
        """Not connected yet."""
        super().__init__(options)
        self.embedded = False

    def _make(self) -> TaskQueue:
        via = self.options.variant.get(VIA)
        if via is None:
            return super()._make()
        return self._with_handlers(TaskQueue(via, token=TOKEN, **self._settings()))

    async def open(self) -> None:
        """Connects, migrates, and starts the gateway."""
        await super().open()
        self.gateway = Gateway(self.options.url)
        variant = {**self.options.variant, VIA: self.gateway.worker_address}
        self.options = replace(self.options, variant=variant)

    async def close(self) -> None:
        """Stops the gateway and disconnects."""
        self.gateway.stop()
        await super().close()


if __name__ == "__main__":
    main(HoldfastRemote)
