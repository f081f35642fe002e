"""The methods that carry no tensors, as the stock client sees them."""

from __future__ import annotations

import signal

import grpc
import pytest
from support.server import Server, wait_until
from tritonclient.utils import InferenceServerException


def test_live_and_ready(echo_server: Server) -> None:
    with echo_server.client() as client:
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("echo")
        assert client.is_model_ready("echo", "1")


def test_an_unknown_model_is_not_ready_and_has_no_metadata(echo_server: Server) -> None:
    with echo_server.client() as client:
        assert not client.is_model_ready("nothing")
        with pytest.raises(InferenceServerException, match="nothing") as caught:
            client.get_model_metadata("nothing")
        assert "NOT_FOUND" in str(caught.value.status())


def test_server_metadata_offers_what_is_there(echo_server: Server) -> None:
    with echo_server.client() as client:
        metadata = client.get_server_metadata()
    assert metadata.name == "belfry"
    assert {"classification", "model_repository", "schedule_policy", "statistics"} <= set(metadata.extensions)
    assert not {"sequence", "system_shared_memory", "cuda_shared_memory"} & set(metadata.extensions)


def test_metadata_names_inputs_outputs_and_the_batch_axis(sample_server: Server) -> None:
    with sample_server.client() as client:
        metadata = client.get_model_metadata("card-fraud")
    (tensor,) = metadata.inputs
    assert tensor.datatype == "FP32"
    assert list(tensor.shape) == [7, -1, 220]
    assert list(metadata.versions) == ["1"]


def test_several_named_inputs_of_two_types(sample_server: Server) -> None:
    with sample_server.client() as client:
        metadata = client.get_model_metadata("credit-risk")
    assert {t.datatype for t in metadata.inputs} == {"INT64", "FP32"}
    assert len(metadata.inputs) == 18
    assert all(list(t.shape) == [-1] for t in metadata.inputs)


def test_model_config_tells_the_largest_batch(sample_server: Server) -> None:
    with sample_server.client() as client:
        config = client.get_model_config("minilm").config
    assert config.name == "minilm"
    assert config.max_batch_size == 32
    assert {i.name for i in config.input} == {"input_ids", "attention_mask"}


def test_repository_index_lists_states(sample_server: Server) -> None:
    with sample_server.client() as client:
        index = client.get_model_repository_index()
    assert {(m.name, m.state) for m in index.models} >= {("echo", "READY"), ("minilm", "READY")}


def test_load_and_unload_are_refused_where_applications_call(echo_server: Server) -> None:
    with echo_server.client() as client:
        for attempt in (client.load_model, client.unload_model):
            with pytest.raises(InferenceServerException, match="admin") as caught:
                attempt("echo")
            assert "PERMISSION_DENIED" in str(caught.value.status())


def test_statistics_count_requests(echo_server: Server) -> None:
    import numpy as np
    from support.requests import echo

    with echo_server.client() as client:
        before = client.get_inference_statistics("echo").model_stats[0]
        for _ in range(3):
            echo(client, np.zeros((2, 3), np.float32))
        after = client.get_inference_statistics("echo").model_stats[0]
    assert after.inference_count - before.inference_count == 6
    assert after.inference_stats.success.count - before.inference_stats.success.count == 3
    assert after.inference_stats.success.ns > before.inference_stats.success.ns
    assert 1 <= after.execution_count - before.execution_count <= 3


def test_health_check_and_watch(echo_server: Server) -> None:
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    with grpc.insecure_channel(echo_server.address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        serving = health_pb2.HealthCheckResponse.SERVING

        def status(service: str) -> int:
            return stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=10).status

        # Published within a tenth of a second or so of the change.
        wait_until("the server serves", lambda: status("") == serving)
        wait_until("the model serves", lambda: status("echo") == serving)
        watch = stub.Watch(health_pb2.HealthCheckRequest(), timeout=10)
        assert next(iter(watch)).status == serving
        watch.cancel()
        with pytest.raises(grpc.RpcError) as caught:
            stub.Check(health_pb2.HealthCheckRequest(service="nothing"), timeout=10)
        assert caught.value.code() == grpc.StatusCode.NOT_FOUND


def test_a_watch_of_the_health_sees_the_end_coming(serve: object) -> None:
    """The stream stays open over SIGTERM and brings NOT_SERVING while the lame duck still takes calls."""
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    status = health_pb2.HealthCheckResponse
    with serve("--lame-duck", "2s", cards="cpu:1") as server:  # type: ignore[operator]
        server.wait_ready("echo")
        with server.client() as client:
            wait_until("ready", client.is_server_ready)
        with grpc.insecure_channel(server.address) as channel:
            watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=60)
            # It may begin as NOT_SERVING: publishing takes up to a tenth of a second.
            assert any(reply.status == status.SERVING for reply in watch)
            server.process.send_signal(signal.SIGTERM)
            assert next(watch).status == status.NOT_SERVING
            assert server.process.poll() is None
            with server.client() as client:
                assert client.is_server_live()
                assert not client.is_server_ready()
            watch.cancel()
        assert server.process.wait(30) == 0


def test_reflection_lists_the_services(echo_server: Server) -> None:
    from google.protobuf.descriptor_pool import DescriptorPool
    from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

    with grpc.insecure_channel(echo_server.address) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        assert {"inference.GRPCInferenceService", "grpc.health.v1.Health"} <= set(database.get_services())
        service = DescriptorPool(database).FindServiceByName("inference.GRPCInferenceService")
        assert "ModelInfer" in service.methods_by_name
