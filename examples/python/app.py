"""An executor with pyxxl."""

import asyncio
import os

from pyxxl import ExecutorConfig, PyxxlRunner
from pyxxl.ctx import g

port = int(os.environ.get("PORT", "9997"))
app = PyxxlRunner(
    ExecutorConfig(
        xxl_admin_baseurl=os.environ.get("SERVER", "http://127.0.0.1:7700") + "/api/",
        executor_app_name="py",
        access_token=os.environ["PY_TOKEN"],
        executor_url=f"http://127.0.0.1:{port}",
        executor_listen_host="127.0.0.1",
        executor_listen_port=port,
    )
)


@app.register(name="nightly")
async def nightly():
    g.logger.info("params %s", g.xxl_run_data.executorParams)
    await asyncio.sleep(1)
    return "42 rows"


app.run_executor()
