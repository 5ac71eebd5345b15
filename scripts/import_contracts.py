"""A contract type for import-linter that may name modules which do not exist yet."""

from grimp import ImportGraph
from importlinter import ContractCheck
from importlinter.contracts.protected import ProtectedContract
from importlinter.domain.imports import ModuleExpression


class ProtectedIfPresent(ProtectedContract):
    """import-linter's `protected`; a module that does not exist yet is not an error."""

    type_name = "protected_if_present"

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        named: list[ModuleExpression] = [*self.protected_modules, *self.allowed_importers]  # type: ignore[misc]
        for name in (expression.expression for expression in named):
            if name not in graph.modules:
                graph.add_module(name, is_squashed=not name.startswith("holdfast."))
        return super().check(graph, verbose)
