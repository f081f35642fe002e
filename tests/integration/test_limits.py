"""What a client can make the server hold or spend is bounded, and the bound is told."""

from __future__ import annotations

import queue
import socket
from typing import Any

import grpc
import numpy as np
import pytest
from support.cards import stopped_card
from support.requests import echo, infer, inputs_of
from support.server import Server, wait_until
from tritonclient.grpc import service_pb2 as pb
from tritonclient.utils import InferenceServerException

MIB = 1 << 20
SMALL = np.arange(4, dtype=np.float32)


def in_flight(server: Server) -> float:
    return server.scrape().value("belfry_requests_in_flight", model="echo")


def assert_serves(server: Server) -> None:
    with server.client() as client:
        assert echo(client, SMALL).tolist() == SMALL.tolist()


def test_a_message_beyond_the_limit_is_refused(serve: object) -> None:
    with serve("--max-message-mb", "2", cards="cpu:1") as server, server.client() as client:  # type: ignore[operator]
        server.wait_ready("echo")
        with pytest.raises(InferenceServerException) as caught:
            echo(client, np.zeros((1, 3 * MIB), np.uint8))
        assert "RESOURCE_EXHAUSTED" in str(caught.value.status())
        assert echo(client, np.zeros((1, MIB), np.uint8)).shape == (1, MIB), "a smaller one on the same connection"


def test_bytes_in_flight_are_bounded_and_the_refusal_names_the_flag(serve: object) -> None:
    flags = ("--max-in-flight-mb", "1", "--max-message-mb", "2")
    with serve(*flags, cards="cpu:1") as server, server.client() as client:  # type: ignore[operator]
        server.wait_ready("echo")
        big = np.full((1, 6 * MIB // 10), 7, np.uint8)
        told: queue.Queue[tuple[Any, Any]] = queue.Queue()
        with stopped_card(server):
            client.async_infer("echo", inputs_of({"input": big}), lambda result, error: told.put((result, error)))
            wait_until("the first is accepted", lambda: in_flight(server) == 1)
            with pytest.raises(InferenceServerException, match="--max-in-flight-mb") as caught:
                echo(client, big, client_timeout=20)
            assert "RESOURCE_EXHAUSTED" in str(caught.value.status())
        result, error = told.get(timeout=60)
        assert error is None, "the refusal of the second does not harm the first"
        assert np.array_equal(result.as_numpy("output"), big)
        # What was held is given back, by the answered request and by the refused one.
        for _ in range(4):
            assert np.array_equal(echo(client, big), big)
        assert [card["restarts"] for card in server.cards()] == [0]


@pytest.mark.parametrize("algorithm", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_a_compressed_message_is_refused(echo_server: Server, algorithm: grpc.Compression) -> None:
    """A small message could become a very large one."""
    request = pb.ModelInferRequest(model_name="echo")
    request.inputs.add(name="input", datatype="UINT8", shape=[100_000])
    request.raw_input_contents.append(bytes(100_000))
    with grpc.insecure_channel(echo_server.address) as channel:
        call = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelInfer",
            pb.ModelInferRequest.SerializeToString,
            pb.ModelInferResponse.FromString,
        )
        with pytest.raises(grpc.RpcError) as caught:
            call(request, compression=algorithm, timeout=20)
        assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED
        reply = call(request, timeout=20)
        assert reply.raw_output_contents[0] == bytes(100_000), "the same connection goes on, uncompressed"


def test_unknown_names_leave_nothing_behind(echo_server: Server) -> None:
    """A client that makes names up grows neither memory nor the metrics page."""

    def ask(first: int, count: int) -> None:
        with echo_server.client() as client:
            for i in range(first, first + count):
                with pytest.raises(InferenceServerException) as caught:
                    infer(client, f"no-such-model-{i}", {"input": SMALL})
                assert "NOT_FOUND" in str(caught.value.status())

    assert_serves(echo_server)
    ask(0, 200)
    before = echo_server.scrape()
    ask(200, 3000)
    after = echo_server.scrape()
    memory = "process_resident_memory_bytes"
    assert before.value(memory) > 0
    assert after.value(memory) - before.value(memory) < 16 * MIB
    assert after.samples.keys() == before.samples.keys()


def test_requests_that_wait_add_no_threads(serve: object) -> None:
    with serve(cards="cpu:1") as server, server.client() as client:  # type: ignore[operator]
        server.wait_ready("echo")
        for _ in range(20):
            echo(client, SMALL)
        before = server.scrape().value("process_threads")
        told: queue.Queue[tuple[Any, Any, int]] = queue.Queue()
        with stopped_card(server):
            for i in range(200):
                values = np.full((1, 3), i, np.int32)
                client.async_infer(
                    "echo", inputs_of({"input": values}), lambda result, error, i=i: told.put((result, error, i))
                )
            wait_until("200 wait", lambda: in_flight(server) == 200, 20)
            assert abs(server.scrape().value("process_threads") - before) <= 2
        for _ in range(200):
            result, error, i = told.get(timeout=60)
            assert error is None
            assert result.as_numpy("output").tolist() == [[i] * 3]
        assert [card["restarts"] for card in server.cards()] == [0]


# Nothing, half a preface, a preface without settings.
@pytest.mark.parametrize("words", [b"", b"PRI * HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"])
def test_connections_that_say_nothing_do_no_harm(echo_server: Server, words: bytes) -> None:
    def connect(listener: str) -> socket.socket:
        host, port = echo_server.addresses[listener].rsplit(":", 1)
        connection = socket.create_connection((host, int(port)), timeout=10)
        connection.sendall(words)
        return connection

    assert_serves(echo_server)
    before = echo_server.scrape().value("process_threads")
    mute: list[socket.socket] = []
    try:
        mute += [connect(listener) for listener in ("inference", "admin") for _ in range(20)]
        mute += [connect("metrics") for _ in range(12)]
        for _ in range(20):
            assert_serves(echo_server)
        assert [card["state"] for card in echo_server.cards()] == ["READY"] * 2
        assert echo_server.scrape().value("process_threads") - before <= 4, "no thread for each connection"
    finally:
        for connection in mute:
            connection.close()
    assert_serves(echo_server)
