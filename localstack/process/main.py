"""Starts LocalStack without Docker: main.py DYNAMODB, a folder with the jars of DynamoDB Local and with Loopback.class."""

import json
import sys
from functools import partial

from twisted.internet import endpoints

from executor import ProcessExecutor
from localstack.runtime.main import main
from localstack.services.dynamodb.server import DynamodbServer
from localstack.services.lambda_ import urlrouter
from localstack.services.lambda_.invocation.plugins import DockerRuntimeExecutorPlugin
from localstack.utils.patch import patch
from localstack.utils.run import ShellCommandThread
from localstack.utils.threads import TMP_THREADS

FOLDER = sys.argv[1]

# LocalStack listens on every interface, whatever GATEWAY_LISTEN says.
endpoints.TCP4ServerEndpoint = partial(endpoints.TCP4ServerEndpoint, interface="127.0.0.1")

DockerRuntimeExecutorPlugin.load = lambda self: ProcessExecutor


@patch(DynamodbServer.do_start_thread)
def start_dynamodb(_, self):
    """Starts the DynamoDB Local of FOLDER: LocalStack would download one."""
    thread = ShellCommandThread(
        ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-Djava.library.path=" + FOLDER, "-cp", FOLDER + "/classes:" + FOLDER + "/*",
         "Loopback", "-inMemory", "-disableTelemetry", "-port", str(self.port)],
        auto_restart=True, name="dynamodb-local")
    TMP_THREADS.append(thread)
    thread.start()
    return thread


@patch(urlrouter.lambda_result_to_response)
def lambda_result_to_response(to_response, result):
    """Sets the cookies that a function answers, which LocalStack leaves out."""
    response = to_response(result)
    for cookie in json.loads(result.payload).get("cookies") or []:
        response.headers.add("Set-Cookie", cookie)
    return response


main()
