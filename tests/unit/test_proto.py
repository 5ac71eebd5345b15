"""The committed code of the protocol buffers is what the generator makes of them."""

from pathlib import Path

from holdfast.proto.sync.v1 import sync_pb2, sync_pb2_grpc
from scripts import make_proto


def test_what_is_generated_is_current(tmp_path: Path) -> None:
    paths = make_proto.generate(tmp_path)
    assert len(paths) == 3
    for path in paths:
        committed = (make_proto.SOURCE / path).read_text("utf-8")
        assert (tmp_path / path).read_text("utf-8") == committed, (
            f"run scripts/make_proto.py: {path}"
        )


def test_the_service_has_the_name_of_the_contract() -> None:
    service = sync_pb2.DESCRIPTOR.services_by_name["WorkerSync"]
    assert service.full_name == "holdfast.sync.v1.WorkerSync"
    assert [method.name for method in service.methods] == ["Sync"]
    assert hasattr(sync_pb2_grpc, "WorkerSyncStub")
