"""The agent reads globs of command types as the server does."""

from __future__ import annotations

from hypothesis import given, strategies as st

from holdfast.agent.blocks import BlockView
from holdfast.agent.settings import AgentSettings
from holdfast.core.fleet.agents.wire import AgentBlock
from holdfast.core.fleet.blocks.block import matches_type
from holdfast.core.fleet.model import Block

TEXTS = st.text("ab[]!-*?", min_size=1, max_size=6)


@given(TEXTS, TEXTS)
def test_blocks_and_allowed_types_match_as_on_the_server(glob: str, name: str) -> None:
    block = Block(
        id="b", project="p", host_id="h", command_type=glob, reason="r", owner="o", created_at=0.0
    )
    view = BlockView()
    view.hear(1, [AgentBlock(id="b", command_type=glob, reason="r")], 0.0)
    assert (view.blocking(name, 0.0) is not None) == matches_type(block, name)
    assert AgentSettings(allow=(glob,)).allows(name, "argv") == matches_type(block, name)
