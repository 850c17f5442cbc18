import com.xxl.job.core.biz.model.ReturnT;
import com.xxl.job.core.executor.XxlJobExecutor;
import com.xxl.job.core.handler.IJobHandler;
import com.xxl.job.core.log.XxlJobFileAppender;
import com.xxl.job.core.log.XxlJobLogger;
import com.xxl.job.core.util.ShardingUtil;
import java.io.File;

/** Executor.java in the words of 2.2, whose handlers answer by what they return. */
public class Executor22 {
    static final String DIR = System.getenv("DIR");

    interface Work {
        ReturnT<String> on(String params) throws Exception;
    }

    static void handler(String name, Work work) {
        XxlJobExecutor.registJobHandler(name, new IJobHandler() {
            @Override
            public ReturnT<String> execute(String params) throws Exception {
                return work.on(params);
            }
        });
    }

    public static void main(String[] args) throws Exception {
        handler("hello", params -> {
            XxlJobLogger.log("log line one");
            XxlJobLogger.log("log line two of hello");
            return new ReturnT<>(ReturnT.SUCCESS_CODE, "hello " + params);
        });
        handler("shard", params -> {
            ShardingUtil.ShardingVO shard = ShardingUtil.getShardingVo();
            return new ReturnT<>(ReturnT.SUCCESS_CODE, "shard " + shard.getIndex() + " of " + shard.getTotal());
        });
        handler("fails", params -> new ReturnT<>(ReturnT.FAIL_CODE, "no luck"));
        handler("panics", params -> {
            throw new IllegalStateException("no luck");
        });
        handler("waits", params -> {
            String log = new File(XxlJobFileAppender.contextHolder.get()).getName(); // which alone tells the number of the run
            String run = log.substring(0, log.lastIndexOf('.'));
            while (!new File(DIR, "go-" + run).exists()) {
                Thread.sleep(20); // a kill, a newer run and the timeout interrupt it
            }
            System.out.println("ended " + run);
            return ReturnT.SUCCESS;
        });
        XxlJobExecutor e = new XxlJobExecutor();
        e.setAdminAddresses(System.getenv("ADMIN"));
        e.setAccessToken(System.getenv("ACCESS_TOKEN"));
        e.setAppname(System.getenv("APP"));
        e.setIp("127.0.0.1");
        e.setPort(Integer.parseInt(System.getenv("PORT")));
        e.setLogPath(new File(DIR, "logs").getPath());
        e.setLogRetentionDays(7);
        Runtime.getRuntime().addShutdownHook(new Thread(e::destroy));
        e.start();
        Thread.currentThread().join();
    }
}
