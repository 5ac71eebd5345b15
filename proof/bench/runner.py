"""The run: rounds, each over all scenarios and subjects in a shuffled order, one at a time."""

from __future__ import annotations

import json
import random
import shutil
import time
from pathlib import Path
from typing import Any

from proof.bench.registry import Measured
from proof.bench.results import Results
from proof.bench.scenarios import Scenario
from proof.lab.databases import query
from proof.lab.report import say
from proof.lab.servers import STOCK, Postgres, Redis
from proof.lab.session import Session, SubjectError
from proof.lab.venvs import VenvError

CALL_LIMIT = 300.0


class Stores:
    """The servers of a run, started when first needed; each measurement gets an empty store."""

    def __init__(self, folder: Path) -> None:
        """Keep all data below ``folder``."""
        self.folder = folder
        self.postgres: Postgres | None = None
        self.redis: Redis | None = None
        self.made = 0

    def fresh(self, store: str) -> str:
        """Address of an empty store."""
        self.made += 1
        if store == "memory":
            return "memory:"
        if store == "sqlite":
            folder = self.folder / f"sqlite-{self.made}"
            folder.mkdir()
            return f"sqlite:///{folder / 'queue.db'}"
        if store == "redis":
            self.redis = self.redis or Redis(base=self.folder)
            self.redis.command("FLUSHALL")
            return self.redis.url
        self.postgres = self.postgres or Postgres(base=self.folder, preset=STOCK)
        database = f"bench{self.made}"
        query(self.postgres.dsn(), f"create database {database}", "checkpoint")
        return self.postgres.dsn(database)

    def rest(self, url: str) -> None:
        """Brings a store to its state some minutes after a large insert, as autovacuum would."""
        if url.startswith("postgresql"):
            query(url, "vacuum analyze", "checkpoint")

    def drop(self, url: str) -> None:
        """Removes one store."""
        if url.startswith("sqlite"):
            shutil.rmtree(Path(url.removeprefix("sqlite:///")).parent, ignore_errors=True)
        elif url.startswith("postgresql"):
            assert self.postgres
            query(self.postgres.dsn(), f"drop database {url.rpartition('/')[2]} with (force)")

    def stop(self) -> None:
        """Stop the servers and remove everything."""
        for server in (self.postgres, self.redis):
            if server:
                server.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


class Runner:
    """Measures subjects. A failure is recorded as a result and never ends the run."""

    def __init__(self, stores: Stores, results: Results, logs: Path, *, quick: bool) -> None:
        """Uses ``stores``, fills ``results``, writes the output of subjects below ``logs``."""
        self.stores, self.results, self.logs, self.quick = stores, results, logs, quick
        self.pythons: dict[str, Path] = {}
        logs.mkdir(parents=True, exist_ok=True)

    def prepare(self, subjects: list[Measured]) -> list[Measured]:
        """Creates the environments; returns the subjects that can run."""
        ready = []
        for spec in subjects:
            reason = spec.missing()
            try:
                if not reason:
                    self.pythons[spec.name] = spec.python()
                    ready.append(spec)
            except (VenvError, OSError) as error:
                reason = f"cannot be installed: {error}"
            if reason:
                self.results.skipped[spec.name] = reason
                say(f"skip {spec.name}: {reason}")
        return ready

    def run(
        self, scenarios: list[Scenario], subjects: list[Measured], rounds: int, seed: int
    ) -> None:
        """All rounds."""
        rng = random.Random(seed)
        for number in range(rounds):
            work = [
                (scenario, spec, requests)
                for scenario in rng.sample(scenarios, len(scenarios))
                if not (scenario.once and number)
                for spec in rng.sample(subjects, len(subjects))
                if (requests := scenario.requests(spec, quick=self.quick))
            ]
            for done, (scenario, spec, requests) in enumerate(work, 1):
                where = f"round {number + 1}/{rounds} {done}/{len(work)}"
                say(
                    f"{where} {scenario.name} {spec.name}: {self.measure(scenario, spec, requests)}"
                )

    def measure(self, scenario: Scenario, spec: Measured, requests: list[dict[str, Any]]) -> str:
        """Each request in a fresh process on an empty store; returns a line with the figures."""
        began = time.monotonic()
        measured: dict[str, float | None] = {}
        try:
            for request in requests:
                measured |= self._call(scenario, spec, request)
        except SubjectError as error:
            self.results.fail(scenario.name, spec.name, str(error))
            return f"FAILED: {error}"
        if (deep := measured.get("deep")) and (shallow := measured.get("shallow")):
            measured["ratio"] = deep / shallow
        self.results.add(scenario.name, spec.name, measured)
        figures = ", ".join(
            f"{m.title} {value:,.{m.decimals}f}"
            for m in scenario.metrics
            if (value := measured.get(m.key)) is not None
        )
        return f"{figures} ({time.monotonic() - began:.1f} s)"

    def _call(
        self, scenario: Scenario, spec: Measured, request: dict[str, Any]
    ) -> dict[str, float | None]:
        url = self.stores.fresh(spec.store)
        options = {"url": url, "scenario": request["op"], "variant": spec.variant}
        log = self.logs / f"{scenario.name}-{spec.name}.log"
        try:
            with Session(spec, self.pythons[spec.name], options, log) as session:
                request = dict(request)
                if waiting := request.pop("fill", 0):
                    session.call({"op": "depth_fill", "waiting": waiting}, CALL_LIMIT)
                    self.stores.rest(url)
                measured = session.call(request, CALL_LIMIT)
                if samples := measured.pop("samples", None):
                    with log.with_suffix(".samples.jsonl").open("a") as file:
                        file.write(json.dumps(samples) + "\n")
                return measured
        finally:
            self.stores.drop(url)
