"""Makes the rows of new tasks from what callers ask for.

Promises: payloads and options are checked before the row is made; those of a batch of one type when its rows
are read. What the tasks of a type share is checked once. Never: writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from holdfast.core.alike import AlikeTasks
from holdfast.core.submit import Submission, submit, submit_like, with_trace
from holdfast.engine.handlers import TypeConfig
from holdfast.engine.parameters import checked_payload, payload_texts
from holdfast.queue.requests import check_options, payloads_of
from holdfast.queue.session import Resources
from holdfast.queue.settings import Settings, SettingsInForce
from holdfast.queue.types import NO_OPTIONS, EnqueueOptions, KnownTypes
from holdfast.tracing import CURRENT, TraceContext

TRACE: Final = "trace"
"""The field of an item with the trace of its caller, for a gateway."""


def traced(submission: Submission, trace: TraceContext | None) -> Submission:
    return submission if trace is None else with_trace(submission, trace)


class NewRows:
    """The rows of the tasks that one queue enqueues."""

    def __init__(self, types: KnownTypes, settings: SettingsInForce) -> None:
        self._types = types
        self._settings = settings
        self._models: dict[str, tuple[TypeConfig, Settings, Submission]] = {}
        """A plain task of each type, which others of the type copy."""

    def one(
        self,
        resources: Resources,
        config: TypeConfig,
        type: str,
        payload: object,
        *,
        id: str | None,
        options: EnqueueOptions,
        now: float,
    ) -> Submission:
        """The row of a task whose payload was checked. A request with only a type and a payload copies an
        earlier one of its type, so options are checked once for each type."""
        settings = self._settings.current
        is_bare = id is None and options.are_none
        if is_bare:
            model = self._models.get(type)
            if model is not None and model[0] is config and model[1] is settings:
                return submit_like(model[2], payload, resources.ids.task(now), now)
        task_id = resources.ids.task(now) if id is None else id
        request = self._types.request(config, type=type, payload=payload, options=options)
        submission = submit(request, task_id=task_id, now=now, id_given=id is not None)
        if is_bare and submission.is_plain:
            self._models[type] = (config, settings, submission)
        return submission

    def batch(self, resources: Resources, items: list[Mapping[str, Any]]) -> Sequence[Submission]:
        """The rows of a batch. Items with only a type and a payload copy the first one of their
        type."""
        if (payloads := payloads_of(items)) is not None:
            alike = self._alike(resources, items[0]["type"], payloads)
            if alike is not None:
                return alike
        group: list[Submission] = []
        models: dict[str, Submission] = {}
        of_caller = CURRENT.get()
        now, new_id = resources.store.now(), resources.ids.task
        last_type, parameters = None, None
        for item in items:
            task_type = item["type"]
            if task_type != last_type:
                last_type, parameters = task_type, self._types.parameters(task_type)
            payload = item.get("payload")
            if parameters is not None:
                payload = checked_payload(parameters, payload)
            is_like_others = len(item) == 2 and "payload" in item
            if is_like_others and (model := models.get(task_type)) is not None:
                submission = submit_like(model, payload, new_id(now), now)
                group.append(traced(submission, of_caller))
                continue
            fields = dict(item)
            trace = fields.pop(TRACE, of_caller)
            task_id = fields.pop("id", None)
            fields.pop("payload", None)
            del fields["type"]
            check_options(fields)
            options = EnqueueOptions(**fields) if fields else NO_OPTIONS
            config = self._types.config(task_type)
            submission = self.one(
                resources, config, task_type, payload, id=task_id, options=options, now=now
            )
            group.append(traced(submission, trace))
            if is_like_others and submission.is_plain:
                models[task_type] = submission
        return group

    def _alike(self, resources: Resources, type: str, payloads: list[object]) -> AlikeTasks | None:
        """The rows of a batch of one type without options. Payloads are checked when the rows are read."""
        parameters, now = self._types.parameters(type), resources.store.now()
        first = payloads[0] if parameters is None else checked_payload(parameters, payloads[0])
        config = self._types.config(type)
        model = self.one(resources, config, type, first, id=None, options=NO_OPTIONS, now=now)
        if not model.is_plain:
            return None
        new_ids = partial(resources.ids.tasks, now)
        texts = partial(payload_texts, parameters, payloads)
        return AlikeTasks(traced(model, CURRENT.get()), len(payloads), new_ids, texts)
