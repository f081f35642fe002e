"""ModelStreamInfer through the stock client."""

from __future__ import annotations

import queue

import numpy as np
import tritonclient.grpc as triton
from support.requests import inputs_of
from support.server import Server, wait_until


def stream(server: Server, requests: list[tuple[str, str, dict[str, np.ndarray]]]) -> list[tuple[object, object]]:
    """Sends (model, id, inputs) over one stream; the (result, error) pairs as they came."""
    got: queue.Queue[tuple[object, object]] = queue.Queue()
    with server.client() as client:
        client.start_stream(callback=lambda result, error: got.put((result, error)))
        for model, request_id, arrays in requests:
            client.async_stream_infer(model, inputs_of(arrays), request_id=request_id)
        answers = [got.get(timeout=30) for _ in requests]
        client.stop_stream()
    return answers


def test_answers_come_in_the_order_of_the_requests(echo_server: Server) -> None:
    count = 300
    requests = [("echo", str(i), {"input": np.full((1 + i % 5, 3), i, np.int32)}) for i in range(count)]
    for i, (result, error) in enumerate(stream(echo_server, requests)):
        assert error is None
        assert result.get_response().id == str(i)  # type: ignore[attr-defined]
        assert (result.as_numpy("output") == i).all()  # type: ignore[attr-defined]


def test_a_bad_request_fails_alone_and_tells_its_id(echo_server: Server) -> None:
    good = {"input": np.ones((1, 1), np.float32)}
    answers = stream(echo_server, [("echo", "a", good), ("nothing", "b", good), ("echo", "c", good)])
    assert [error is None for _, error in answers] == [True, False, True]
    assert "nothing" in str(answers[1][1])


def test_a_stream_cut_off_by_the_client_leaves_nothing_behind(echo_server: Server) -> None:
    for _ in range(10):
        client = triton.InferenceServerClient(echo_server.address)
        client.start_stream(callback=lambda result, error: None)
        for i in range(50):
            client.async_stream_infer("echo", inputs_of({"input": np.full((4, 1000), i, np.float32)}))
        client.stop_stream(cancel_requests=True)
        client.close()
    wait_until(
        "nothing in flight", lambda: echo_server.scrape().value("belfry_requests_in_flight", model="echo") == 0
    )


def test_compiled_models_stream_too(sample_server: Server, samples) -> None:  # type: ignore[no-untyped-def]
    from support.requests import golden_cases

    inputs, outputs = next(iter(golden_cases(samples / "minilm" / "1").values()))
    for result, error in stream(sample_server, [("minilm", str(i), inputs) for i in range(10)]):
        assert error is None
        for name, expected in outputs.items():
            np.testing.assert_allclose(result.as_numpy(name), expected, rtol=1e-4, atol=1e-5)  # type: ignore[attr-defined]
