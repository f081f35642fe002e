"""The built-in echo, through the stock client: every datatype, any shape."""

from __future__ import annotations

import numpy as np
import pytest
import tritonclient.grpc as triton
from support.requests import echo
from support.server import Server
from tritonclient.grpc import service_pb2 as pb

NUMPY_TYPES = {
    "BOOL": np.bool_, "INT8": np.int8, "INT16": np.int16, "INT32": np.int32, "INT64": np.int64, "UINT8": np.uint8,
    "UINT16": np.uint16, "UINT32": np.uint32, "UINT64": np.uint64, "FP16": np.float16, "FP32": np.float32,
    "FP64": np.float64,
}  # fmt: skip
SHAPES = [(), (1,), (3, 5), (2, 1, 4, 7), (1, 1, 1, 1, 1, 2)]


@pytest.mark.parametrize("datatype", NUMPY_TYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_numbers_come_back_as_they_were(echo_server: Server, datatype: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(shape))
    values = np.asarray(rng.integers(0, 100, shape)).astype(NUMPY_TYPES[datatype])
    with echo_server.client() as client:
        got = echo(client, values)
    assert got.dtype == values.dtype
    np.testing.assert_array_equal(got, values)


def test_extreme_values_keep_every_bit(echo_server: Server) -> None:
    cases = [
        np.array([np.iinfo(np.int64).min, -1, np.iinfo(np.int64).max]),
        np.array([0, np.iinfo(np.uint64).max], dtype=np.uint64),
        np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45], dtype=np.float32),
    ]
    with echo_server.client() as client:
        for values in cases:
            assert echo(client, values).tobytes() == values.tobytes()


def test_bf16_is_carried_raw(echo_server: Server) -> None:
    # numpy has no bfloat16; two bytes each, as they are on the wire.
    raw = bytes.fromhex("803f20c061ff")
    request = pb.ModelInferRequest(model_name="echo")
    request.inputs.add(name="input", datatype="BF16", shape=[1, 3])
    request.raw_input_contents.append(raw)
    with echo_server.client() as client:
        response = client._client_stub.ModelInfer(request)
    assert response.outputs[0].datatype == "BF16"
    assert list(response.outputs[0].shape) == [1, 3]
    assert response.raw_output_contents[0] == raw


def test_bytes_of_any_length(echo_server: Server) -> None:
    values = np.array([[b"", b"a\x00b"], ["\u20ac uro".encode(), b"x" * 100_000]], dtype=np.object_)
    with echo_server.client() as client:
        got = echo(client, values)
    assert got.shape == (2, 2)
    assert got.tolist() == values.tolist()


def test_typed_contents_are_as_good_as_raw(echo_server: Server) -> None:
    request = pb.ModelInferRequest(model_name="echo", id="typed")
    tensor = request.inputs.add(name="input", datatype="INT16", shape=[2, 2])
    tensor.contents.int_contents.extend([1, -2, 32767, -32768])
    with echo_server.client() as client:
        response = client._client_stub.ModelInfer(request)
    assert np.frombuffer(response.raw_output_contents[0], "<i2").tolist() == [1, -2, 32767, -32768]
    assert response.id == "typed"


def test_a_megabyte_each_way(echo_server: Server) -> None:
    values = np.random.default_rng(0).integers(0, 256, (16, 1 << 16), dtype=np.uint8)
    with echo_server.client() as client:
        np.testing.assert_array_equal(echo(client, values), values)


def test_request_id_and_version_are_told(echo_server: Server) -> None:
    tensor = triton.InferInput("input", [1], "FP32")
    tensor.set_data_from_numpy(np.zeros(1, np.float32))
    with echo_server.client() as client:
        response = client.infer("echo", [tensor], request_id="abc-1").get_response()
    assert (response.model_name, response.model_version, response.id) == ("echo", "1", "abc-1")
