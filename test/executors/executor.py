"""pyxxl with the handlers of the matrix, told by its environment where it is."""

import asyncio
import os

from pyxxl import ExecutorConfig, PyxxlRunner
from pyxxl.ctx import g

here = os.environ["DIR"]
port = int(os.environ["PORT"])
app = PyxxlRunner(
    ExecutorConfig(
        xxl_admin_baseurl=os.environ["ADMIN"] + "/api/",
        executor_app_name=os.environ["APP"],
        access_token=os.environ["ACCESS_TOKEN"],
        executor_url=f"http://127.0.0.1:{port}",
        executor_listen_host="127.0.0.1",
        executor_listen_port=port,
        executor_log_path=os.path.join(here, "pyxxl.log"),
        log_local_dir=os.path.join(here, "logs"),
    )
)


@app.register(name="hello")
async def hello():
    g.logger.info("log line one")
    g.logger.info("log line two of hello")
    return "hello " + g.xxl_run_data.executorParams


@app.register(name="shard")
async def shard():
    return f"shard {g.xxl_run_data.broadcastIndex} of {g.xxl_run_data.broadcastTotal}"


@app.register(name="fails")
async def fails():
    raise ValueError("no luck")


@app.register(name="panics")
async def panics():
    raise ValueError("no luck")


@app.register(name="waits")
async def waits():
    run = g.xxl_run_data.logId
    while not os.path.exists(os.path.join(here, f"go-{run}")):
        await asyncio.sleep(0.02)
    print("ended", run, flush=True)
    return "let go"


app.run_executor()
