"""The metrics page under load: the numbers add up and gauges come back to zero."""

from __future__ import annotations

import threading
import urllib.request

import pytest
from support.load import EchoLoad
from support.server import Server, wait_until

COUNTERS = ["belfry_requests_total", "belfry_rows_total", "belfry_executions_total", "belfry_executed_rows_total"]


def test_counters_only_rise_while_scraped_under_load(echo_server: Server) -> None:
    stop, falls = threading.Event(), []

    def scrape() -> None:
        last = dict.fromkeys(COUNTERS, 0.0)
        while not stop.is_set():
            page = echo_server.scrape()
            for name in COUNTERS:
                value = page.value(name, model="echo")
                if value < last[name]:
                    falls.append(f"{name}: {last[name]} -> {value}")
                last[name] = value

    scraper = threading.Thread(target=scrape)
    scraper.start()
    with EchoLoad(echo_server) as load:
        load.wait_answers(500)
    stop.set()
    scraper.join()
    assert not falls


def test_numbers_add_up(echo_server: Server) -> None:
    before = echo_server.scrape()
    with EchoLoad(echo_server) as load:
        load.wait_answers(300)
    answered = sum(load.answered.values())
    wait_until("all counted", lambda: echo_server.scrape().value("belfry_requests_in_flight", model="echo") == 0)
    after = echo_server.scrape()

    def grown(name: str, **labels: str) -> float:
        return after.value(name, model="echo", **labels) - before.value(name, model="echo", **labels)

    assert grown("belfry_requests_total") == answered
    assert grown("belfry_requests_total", code="OK") == load.answered["OK"]
    assert grown("belfry_request_duration_seconds_count") == answered
    assert grown("belfry_queue_duration_seconds_count") == answered
    assert grown("belfry_executed_rows_total") == grown("belfry_rows_total") == grown("belfry_batch_rows_sum")
    assert grown("belfry_executions_total") == grown("belfry_batch_rows_count")
    assert grown("belfry_executions_total") == grown("belfry_compute_duration_seconds_count")
    per_card = sum(grown("belfry_card_rows_total", card=card) for card in ("cpu:0", "cpu:1"))
    assert per_card == grown("belfry_rows_total")
    assert after.value("belfry_queue_depth", model="echo") == 0


def test_rejections_are_counted_without_the_clients_words(echo_server: Server) -> None:
    import grpc
    from tritonclient.grpc import service_pb2 as pb

    before = echo_server.scrape().value("belfry_rejected_requests_total", code="NOT_FOUND")
    with echo_server.client() as client:
        for i in range(5):
            with pytest.raises(grpc.RpcError):
                client._client_stub.ModelInfer(pb.ModelInferRequest(model_name=f"secret-name-{i}"))
    page = urllib.request.urlopen(f"http://{echo_server.addresses['metrics']}/metrics", timeout=10).read().decode()
    assert "secret-name" not in page
    assert echo_server.scrape().value("belfry_rejected_requests_total", code="NOT_FOUND") - before == 5


def test_standard_process_and_build_metrics(echo_server: Server) -> None:
    page = echo_server.scrape()
    assert page.value("process_resident_memory_bytes") > 1 << 20
    assert page.value("process_open_fds") > 3
    assert page.value("process_start_time_seconds") > 1.5e9
    assert page.value("belfry_build_info") == 1
    assert page.value("belfry_card_state", card="cpu:0", state="READY") == 1
    assert page.value("belfry_model_state", model="echo", state="READY") == 1


def test_latency_buckets_reach_from_a_tenth_of_a_millisecond_to_ten_seconds(echo_server: Server) -> None:
    bounds = echo_server.scrape().label_values("belfry_request_duration_seconds_bucket", "le")
    numbers = sorted(float(b) for b in bounds if b != "+Inf")
    assert numbers[0] <= 1e-4
    assert numbers[-1] >= 10


def test_busy_seconds_grow_with_work(echo_server: Server) -> None:
    before = echo_server.scrape().value("belfry_card_busy_seconds_total")
    with EchoLoad(echo_server, clients=2) as load:
        load.wait_answers(50)
    assert echo_server.scrape().value("belfry_card_busy_seconds_total") > before
