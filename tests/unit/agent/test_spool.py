"""The spool: bounds, order, gaps."""

from hypothesis import given, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from holdfast.agent.spool import RESULT_BYTES, Piece, Spool
from holdfast.core.fleet.agents.wire import CHUNK_BYTES_MAX

KB = 1024


def test_output_is_sent_in_chunks_and_in_order() -> None:
    spool = Spool()
    spool.grow(2, "stdout", CHUNK_BYTES_MAX + 10)
    spool.grow(1, "stderr", 5)
    assert spool.pieces(10**9, 100) == [
        Piece(1, "stderr", 0, 5, False),
        Piece(2, "stdout", 0, CHUNK_BYTES_MAX, False),
        Piece(2, "stdout", CHUNK_BYTES_MAX, 10, False),
    ]
    assert spool.pieces(10**9, 1) == [Piece(1, "stderr", 0, 5, False)]
    assert spool.pieces(5, 100) == [Piece(1, "stderr", 0, 5, False)]
    spool.taken(1, "stderr", 3)
    assert spool.pieces(5, 100) == [Piece(1, "stderr", 3, 2, False)]
    assert (spool.left(1), spool.left(2), spool.left(3)) == (1, 2, 0)
    assert spool.ends(2) == {"stdout": CHUNK_BYTES_MAX + 10}


def test_a_gap_is_a_piece_between_others() -> None:
    spool = Spool()
    spool.gap(1, "stdout", 10, 5)
    spool.grow(1, "stdout", 20)
    assert spool.pieces(10**9, 100) == [
        Piece(1, "stdout", 0, 10, False),
        Piece(1, "stdout", 10, 5, True),
        Piece(1, "stdout", 15, 5, False),
    ]
    assert spool.gaps(1) == {"stdout": [(10, 5)]}
    spool.taken(1, "stdout", 12)
    assert spool.pieces(10**9, 100)[0] == Piece(1, "stdout", 12, 3, True)


def test_the_oldest_output_goes_first_and_results_never() -> None:
    spool = Spool(bytes_max=600 * KB)
    spool.put_result("r-1")
    spool.grow(1, "stdout", 400 * KB)
    spool.grow(2, "stdout", 400 * KB)
    shed = spool.shed()
    assert {(one.token, one.stream, one.start) for one in shed} == {(1, "stdout", 0)}
    assert spool.usage.bytes <= 600 * KB
    assert spool.pieces(10**9, 10)[0].is_gap
    assert spool.ends(2) == {"stdout": 400 * KB}


def test_results_alone_can_fill_it() -> None:
    spool = Spool(entries_max=3)
    for n in range(3):
        assert not spool.is_full
        spool.put_result(f"r-{n}")
    assert spool.is_full
    spool.grow(1, "stdout", 10)
    assert [one.size for one in spool.shed()] == [10]
    spool.acked("r-0")
    spool.acked("r-9")
    assert spool.usage.bytes == 2 * RESULT_BYTES


@given(
    st.lists(st.tuples(st.integers(0, 500), st.integers(1, 50)), max_size=8),
    st.integers(0, 600),
    st.integers(0, 600),
)
def test_pieces_cover_what_is_left_once(gaps: list[tuple[int, int]], end: int, next: int) -> None:
    spool = Spool()
    spool.grow(1, "stdout", end)
    for start, size in gaps:
        spool.gap(1, "stdout", start, size)
    spool.taken(1, "stdout", next)
    end = max([end, *(start + size for start, size in gaps)])
    pieces = spool.pieces(10**9, 10**6)
    at = min(next, end)
    missing = {byte for start, size in gaps for byte in range(start, start + size)}
    for piece in pieces:
        assert piece.start == at
        assert piece.size > 0
        covered = set(range(piece.start, piece.start + piece.size))
        assert covered <= missing if piece.is_gap else not covered & missing
        at += piece.size
    assert at == end


class SpoolRules(RuleBasedStateMachine):
    """After each step that sheds, the bounds hold, and results are all there."""

    def __init__(self) -> None:
        super().__init__()
        self.spool = Spool(entries_max=12, bytes_max=20 * RESULT_BYTES)
        self.results: set[str] = set()
        self.sizes: dict[int, int] = {}

    @rule(n=st.integers(0, 9))
    def end(self, n: int) -> None:
        if not self.spool.is_full:
            self.results.add(f"r-{n}")
            self.spool.put_result(f"r-{n}")

    @rule(n=st.integers(0, 9))
    def ack(self, n: int) -> None:
        self.results.discard(f"r-{n}")
        self.spool.acked(f"r-{n}")

    @rule(token=st.integers(1, 3), size=st.integers(1, 30 * RESULT_BYTES))
    def write(self, token: int, size: int) -> None:
        self.sizes[token] = self.sizes.get(token, 0) + size
        self.spool.grow(token, "stdout", self.sizes[token])

    @rule(token=st.integers(1, 3), share=st.floats(0, 1))
    def take(self, token: int, share: float) -> None:
        self.spool.taken(token, "stdout", int(self.sizes.get(token, 0) * share))

    @rule(token=st.integers(1, 3))
    def forget(self, token: int) -> None:
        self.spool.forget(token)
        self.sizes.pop(token, None)

    @invariant()
    def bounds(self) -> None:
        self.spool.shed()
        usage = self.spool.usage
        assert usage.bytes <= 20 * RESULT_BYTES
        assert usage.entries <= 12 + 3  # a gap of each run
        assert self.spool.ends(1).get("stdout", 0) == self.sizes.get(1, 0)
        held = sum(f"r-{n}" in self.results for n in range(10))
        assert held * RESULT_BYTES <= usage.bytes


TestSpoolRules = SpoolRules.TestCase
