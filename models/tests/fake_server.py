"""A small server of the protocol, to test the replay without belfryd: models are functions, faults come to order."""

import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
import numpy as np
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import deserialize_bytes_tensor, np_to_triton_dtype, serialize_byte_tensor, triton_to_np_dtype

Function = Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]


@dataclass
class FakeServer(service_pb2_grpc.GRPCInferenceServiceServicer):
    models: dict[str, Function]
    fail_every: int = 0  # the nth request ends with UNAVAILABLE
    card_rows: bool = True  # whether the metrics tell rows by card
    requests: int = 0
    batches: dict[str, list[int]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    address: str = ""
    metrics_address: str = ""

    def ModelReady(self, request, context):
        return service_pb2.ModelReadyResponse(ready=request.name in self.models)

    def ModelMetadata(self, request, context):
        tensor = service_pb2.ModelMetadataResponse.TensorMetadata
        return service_pb2.ModelMetadataResponse(
            name=request.name, inputs=[tensor(name="anything")], outputs=[tensor(name="the_same")]
        )

    def ModelInfer(self, request, context):
        with self.lock:
            self.requests += 1
            if self.fail_every and self.requests % self.fail_every == 0:
                context.abort(grpc.StatusCode.UNAVAILABLE, "no healthy card")
        inputs = {}
        for tensor, raw in zip(request.inputs, request.raw_input_contents, strict=True):
            if tensor.datatype == "BYTES":
                array = deserialize_bytes_tensor(raw)
            else:
                array = np.frombuffer(raw, dtype=triton_to_np_dtype(tensor.datatype))
            inputs[tensor.name] = array.reshape(tuple(tensor.shape))
        answer = service_pb2.ModelInferResponse(model_name=request.model_name)
        for name, array in self.models[request.model_name](inputs).items():
            output = answer.outputs.add(name=name, datatype=np_to_triton_dtype(array.dtype))
            output.shape.extend(array.shape)
            raw = serialize_byte_tensor(array).item() if array.dtype == np.object_ else array.tobytes()
            answer.raw_output_contents.append(raw)
        with self.lock:
            self.batches.setdefault(request.model_name, []).append(len(array))
        return answer

    def metrics(self) -> str:
        lines = ["# HELP belfry_batch_rows rows", "# TYPE belfry_batch_rows histogram"]
        with self.lock:
            for model, rows in self.batches.items():
                labels = f'model="{model}",version="1"'
                lines += [
                    f"belfry_batch_rows_sum{{{labels}}} {sum(rows)}",
                    f"belfry_batch_rows_count{{{labels}}} {len(rows)}",
                ]
                if self.card_rows:
                    lines += [
                        f'belfry_card_rows_total{{card="cpu:0",{labels}}} {sum(rows[::2])}',
                        f'belfry_card_rows_total{{card="cpu:1",{labels}}} {sum(rows[1::2])}',
                    ]
        return "\n".join(lines) + "\n"


@contextmanager
def serve(fake: FakeServer) -> Iterator[FakeServer]:
    """On free ports of this host; sets both addresses."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self):
            body = fake.metrics().encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    server = grpc.server(futures.ThreadPoolExecutor(8))
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(fake, server)
    fake.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    page = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    fake.metrics_address = f"127.0.0.1:{page.server_address[1]}"
    thread = threading.Thread(target=page.serve_forever)
    thread.start()
    try:
        yield fake
    finally:
        page.shutdown()
        thread.join()
        page.server_close()
        server.stop(None).wait()
