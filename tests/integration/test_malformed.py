"""What is wrong with a request is said, all of it at once, and harms nobody."""

from __future__ import annotations

import random

import grpc
import numpy as np
import pytest
from support.requests import echo
from support.server import Server
from tritonclient.grpc import service_pb2 as pb


def call(server: Server, request: pb.ModelInferRequest) -> grpc.RpcError:
    """Sends the request and returns the error that it must get."""
    with server.client() as client, pytest.raises(grpc.RpcError) as caught:
        client._client_stub.ModelInfer(request, timeout=20)
    return caught.value


def fraud_request(**change: object) -> pb.ModelInferRequest:
    """A correct card-fraud request for one row, with some of the input's fields changed."""
    request = pb.ModelInferRequest(model_name="card-fraud")
    tensor = request.inputs.add(name=INPUT, datatype="FP32", shape=[7, 1, 220])
    raw = bytes(4 * 7 * 220)
    for key, value in change.items():
        if key == "shape":
            del tensor.shape[:]
            tensor.shape.extend(value)  # type: ignore[arg-type]
        elif key == "raw":
            raw = value  # type: ignore[assignment]
        else:
            setattr(tensor, key, value)
    request.raw_input_contents.append(raw)
    return request


INPUT = "x"


@pytest.fixture(autouse=True)
def input_name(sample_server: Server) -> None:
    global INPUT
    with sample_server.client() as client:
        INPUT = client.get_model_metadata("card-fraud").inputs[0].name


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"datatype": "FP64"}, ["FP64", "FP32"]),
        ({"datatype": "FLOAT"}, ["FLOAT"]),
        ({"shape": [7, 1, 219]}, ["219", "220"]),
        ({"shape": [7, 220]}, ["220"]),
        ({"shape": [7, -1, 220]}, ["-1"]),
        ({"shape": [7, 0, 220]}, ["0"]),
        ({"shape": [2**40, 2**40, 2**40]}, []),
        ({"raw": b"123"}, ["3", "6160"]),
        ({"raw": b""}, ["6160"]),
        ({"name": "wrong"}, ["wrong"]),
    ],
)
def test_a_fault_is_named_with_what_came_and_what_was_expected(
    sample_server: Server, change: dict[str, object], words: list[str]
) -> None:
    error = call(sample_server, fraud_request(**change))
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT, error
    for word in words:
        assert word in error.details(), error.details()


def test_the_model_and_the_tensor_are_named(sample_server: Server) -> None:
    details = call(sample_server, fraud_request(datatype="FP64")).details()
    assert "card-fraud" in details
    assert INPUT in details


def test_all_faults_are_told_at_once(sample_server: Server) -> None:
    request = pb.ModelInferRequest(model_name="credit-risk")
    request.inputs.add(name="duration_in_month", datatype="INT8", shape=[1, 2])
    request.inputs.add(name="no_such_column", datatype="FP32", shape=[1])
    request.raw_input_contents.extend([bytes(2), bytes(4)])
    request.outputs.add(name="no_such_output")
    details = call(sample_server, request).details()
    assert "no_such_column" in details
    assert "no_such_output" in details
    assert "missing" in details

    # The first fault can be told without the signature, the others cannot.
    request = pb.ModelInferRequest(model_name="credit-risk")
    request.inputs.add(name="duration_in_month", datatype="FLOAT", shape=[1, 2])
    request.raw_input_contents.append(bytes(2))
    request.outputs.add(name="no_such_output")
    with sample_server.client() as client:
        names = [tensor.name for tensor in client.get_model_metadata("credit-risk").inputs]
    assert "duration_in_month" in names
    assert len(names) > 1
    error = call(sample_server, request)
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    details = error.details()
    assert "'credit-risk'" in details
    assert "'FLOAT'" in details
    assert "no_such_output" in details
    for name in names:
        assert f"'{name}'" in details, details
        assert (f"'{name}' is missing" in details) == (name != "duration_in_month"), details


def test_raw_and_typed_contents_do_not_mix(echo_server: Server) -> None:
    request = pb.ModelInferRequest(model_name="echo")
    tensor = request.inputs.add(name="input", datatype="FP32", shape=[1])
    tensor.contents.fp32_contents.append(1)
    request.raw_input_contents.append(bytes(4))
    assert call(echo_server, request).code() == grpc.StatusCode.INVALID_ARGUMENT


def test_typed_contents_must_fit_their_type(echo_server: Server) -> None:
    request = pb.ModelInferRequest(model_name="echo")
    tensor = request.inputs.add(name="input", datatype="INT8", shape=[2])
    tensor.contents.int_contents.extend([1, 300])
    error = call(echo_server, request)
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "300" in error.details()


def test_bytes_elements_must_add_up(echo_server: Server) -> None:
    for raw in (b"\x05\x00\x00\x00ab", b"\x01\x00", b"\xff\xff\xff\xffxx"):
        request = pb.ModelInferRequest(model_name="echo")
        request.inputs.add(name="input", datatype="BYTES", shape=[1])
        request.raw_input_contents.append(raw)
        assert call(echo_server, request).code() == grpc.StatusCode.INVALID_ARGUMENT, raw


def test_faults_are_told_together_with_an_unknown_model(echo_server: Server) -> None:
    request = pb.ModelInferRequest(model_name="echo")
    request.inputs.add(name="input", datatype="FLOAT", shape=[1])
    request.raw_input_contents.append(bytes(4))
    request.outputs.add(name="no_such_output")
    details = call(echo_server, request).details()
    assert "'FLOAT'" in details
    assert "no_such_output" in details
    request.model_name = "echos"
    error = call(echo_server, request)
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "'FLOAT'" in error.details()
    assert "there is no model 'echos'" in error.details()


def test_unknown_models_and_versions(echo_server: Server) -> None:
    request = pb.ModelInferRequest(model_name="echos")
    error = call(echo_server, request)
    assert error.code() == grpc.StatusCode.NOT_FOUND
    assert "echos" in error.details()
    assert "echo" in error.details().replace("echos", "")
    request = pb.ModelInferRequest(model_name="echo", model_version="7")
    assert call(echo_server, request).code() == grpc.StatusCode.NOT_FOUND
    request = pb.ModelInferRequest(model_name="../../etc/passwd")
    assert call(echo_server, request).code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND)


def test_a_clients_own_words_come_back_harmless(echo_server: Server) -> None:
    request = pb.ModelInferRequest(model_name="echo\x1b[31m\n\x00" + "A" * 5000)
    details = call(echo_server, request).details()
    assert "\x1b" not in details
    assert "\x00" not in details
    assert len(details) < 4096
    assert "\x1b" not in echo_server.log()


def test_mutated_requests_never_hurt_the_server(echo_server: Server) -> None:
    """Random damage to valid bytes: an answer or an error, always, and the server goes on."""
    rng = random.Random(3)
    request = pb.ModelInferRequest(model_name="echo", id="x")
    request.inputs.add(name="input", datatype="FP32", shape=[4, 2])
    request.raw_input_contents.append(bytes(32))
    good = request.SerializeToString()
    with grpc.insecure_channel(echo_server.address) as channel:
        infer = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelInfer", lambda b: b, pb.ModelInferResponse.FromString
        )
        codes: dict[str, int] = {}
        for _ in range(1500):
            damaged = bytearray(good)
            for _ in range(rng.randint(1, 6)):
                kind = rng.randrange(3)
                at = rng.randrange(len(damaged)) if damaged else 0
                if kind == 0 and damaged:
                    damaged[at] = rng.randrange(256)
                elif kind == 1:
                    damaged[at:at] = bytes([rng.randrange(256)])
                elif damaged:
                    del damaged[at]
            try:
                infer(bytes(damaged), timeout=20)
                codes["OK"] = codes.get("OK", 0) + 1
            except grpc.RpcError as error:
                codes[error.code().name] = codes.get(error.code().name, 0) + 1
    assert set(codes) <= {"OK", "INVALID_ARGUMENT", "NOT_FOUND", "RESOURCE_EXHAUSTED"}, codes
    assert codes["INVALID_ARGUMENT"] > 100
    with echo_server.client() as client:
        assert echo(client, np.ones(3, np.float32)).tolist() == [1, 1, 1]
    assert all(card["restarts"] == 0 for card in echo_server.cards())


def test_a_request_that_fits_no_card_is_refused_with_the_numbers(serve: object) -> None:
    with serve("--arena-mb", "1", cards="cpu:1") as server, server.client() as client:  # type: ignore[operator]
        server.wait_ready("echo")
        with pytest.raises(Exception, match="1048576") as caught:
            echo(client, np.zeros((1, 1 << 19), np.float32))
        assert "RESOURCE_EXHAUSTED" in str(caught.value.status())  # type: ignore[attr-defined]
        assert echo(client, np.ones(2, np.float32)).tolist() == [1, 1]
