"""Runs the functions of LocalStack as processes of this machine. LocalStack itself needs Docker for them."""

import json
import os
import queue
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from localstack import config
from localstack.services.lambda_.invocation.lambda_models import InvocationResult
from localstack.services.lambda_.invocation.runtime_executor import RuntimeExecutor

LOG_LINES = 1000  # kept of one invocation


class Process:
    """One process of a function, and the Runtime API that gives it one invocation at a time."""

    def __init__(self, code, env):
        self.invocations, self.answers, self.lines = queue.Queue(), queue.Queue(), []
        self.api = ThreadingHTTPServer(("127.0.0.1", 0), handler(self))
        self.api.daemon_threads = True
        threading.Thread(target=self.api.serve_forever, daemon=True).start()
        program = os.path.join(code, "bootstrap")
        os.chmod(program, 0o755)
        self.process = subprocess.Popen(
            [program], cwd=code, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**env, "PATH": os.environ["PATH"], "LAMBDA_TASK_ROOT": code, "TZ": "UTC",
                 "AWS_LAMBDA_RUNTIME_API": "127.0.0.1:%d" % self.api.server_address[1]})
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            if len(self.lines) < LOG_LINES:
                self.lines.append(line.decode("utf-8", "replace"))

    def alive(self):
        return self.process.poll() is None

    def answer(self, invocation):
        """Returns the response of the function, and whether the response is an error."""
        id, deadline = invocation["invoke-id"], invocation["deadline"]
        self.invocations.put(invocation)
        while True:
            try:
                answered, body, failed = self.answers.get(timeout=0.2)
                if answered == id:
                    return body, failed
            except queue.Empty:
                pass
            if not self.alive():
                return error(id, "Runtime.ExitError", "Runtime exited with error: %s" % self.process.returncode), True
            if time.time() > deadline:
                self.end()
                return error(id, "Sandbox.Timedout", "Task timed out after %d.00 seconds" % invocation["timeout"]), True

    def end(self):
        self.process.kill()
        self.process.wait()
        self.invocations.put(None)  # for a request that still waits for one
        self.api.shutdown()
        self.api.server_close()


def error(id, kind, message):
    return json.dumps({"errorType": kind, "errorMessage": "RequestId: %s Error: %s" % (id, message)}).encode()


def handler(process):
    class RuntimeAPI(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_GET(self):  # /2018-06-01/runtime/invocation/next
            i = process.invocations.get()
            if i is None:
                self.close_connection = True
                return
            self.send(200, i["payload"].encode(), {
                "Content-Type": "application/json", "Lambda-Runtime-Aws-Request-Id": i["invoke-id"],
                "Lambda-Runtime-Invoked-Function-Arn": i["invoked-function-arn"], "Lambda-Runtime-Trace-Id": i["trace-id"],
                "Lambda-Runtime-Deadline-Ms": str(int(i["deadline"] * 1000))})

        def do_POST(self):  # /2018-06-01/runtime/invocation/ID/response or /error
            body, path = self.body(), self.path.split("/")
            if path[-1] in ("response", "error"):
                process.answers.put((path[-2], body, path[-1] == "error"))
            self.send(202, b"", {})

        def body(self):
            if "chunked" not in self.headers.get("Transfer-Encoding", ""):
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            while self.rfile.readline().strip():  # trailers
                pass
            return body

        def send(self, status, body, headers):
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return RuntimeAPI


class ProcessExecutor(RuntimeExecutor):
    """One execution environment of a function."""

    process = None

    def start(self, env_vars):
        self.env = {name: str(value) for name, value in env_vars.items()}
        self.code = str(self.function_version.config.code.get_unzipped_code_location())
        self.process = Process(self.code, self.env)

    def stop(self):
        if self.process:
            self.process.end()

    def invoke(self, payload):
        if not self.process.alive():  # it ended or timed out: Lambda starts another
            self.process.end()
            self.process = Process(self.code, self.env)
        timeout = self.function_version.config.timeout
        self.process.lines = []
        body, failed = self.process.answer({**payload, "timeout": timeout, "deadline": time.time() + timeout})
        id = payload["invoke-id"]
        logs = "START RequestId: %s\n%sEND RequestId: %s\n" % (id, self.get_logs(), id)
        return InvocationResult(id, body, is_error=failed, logs=logs)

    def get_logs(self):
        return "".join(self.process.lines) if self.process else ""

    def get_address(self):
        return "127.0.0.1"

    def get_endpoint_from_executor(self):
        return "127.0.0.1"

    def get_runtime_endpoint(self):  # for the program that LocalStack runs in containers
        return "http://127.0.0.1:%d" % config.GATEWAY_LISTEN[0].port

    @classmethod
    def prepare_version(cls, function_version):
        function_version.config.code.prepare_for_execution()

    @classmethod
    def cleanup_version(cls, function_version):
        pass
