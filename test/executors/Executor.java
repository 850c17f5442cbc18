import com.xxl.job.core.context.XxlJobHelper;
import com.xxl.job.core.executor.impl.XxlJobSimpleExecutor;
import com.xxl.job.core.handler.annotation.XxlJob;
import com.xxl.job.core.log.XxlJobFileAppender;
import java.io.File;
import java.lang.reflect.Field;
import java.util.List;

/** xxl-job's own executor with the handlers of the matrix, told by its environment where it is. */
public class Executor {
    static final String DIR = System.getenv("DIR");

    @XxlJob("hello")
    public void hello() {
        XxlJobHelper.log("log line one");
        XxlJobHelper.log("log line two of hello");
        XxlJobHelper.handleSuccess("hello " + XxlJobHelper.getJobParam());
    }

    @XxlJob("shard")
    public void shard() {
        XxlJobHelper.handleSuccess("shard " + XxlJobHelper.getShardIndex() + " of " + XxlJobHelper.getShardTotal());
    }

    @XxlJob("fails")
    public void fails() {
        XxlJobHelper.handleFail("no luck");
    }

    @XxlJob("panics")
    public void panics() {
        throw new IllegalStateException("no luck");
    }

    @XxlJob("waits")
    public void waits() throws Exception {
        String run = run();
        while (!new File(DIR, "go-" + run).exists()) {
            Thread.sleep(20); // a kill, a newer run and the timeout interrupt it
        }
        System.out.println("ended " + run);
    }

    /** The number of the run: 2.3 tells it only in the name of its log. */
    static String run() throws Exception {
        try {
            return XxlJobHelper.class.getMethod("getLogId").invoke(null).toString();
        } catch (NoSuchMethodException e) {
            String log = new File(XxlJobHelper.class.getMethod("getJobLogFileName").invoke(null).toString()).getName();
            return log.substring(0, log.lastIndexOf('.'));
        }
    }

    public static void main(String[] args) throws Exception {
        try { // 3.3 keeps what it could not report in one folder of the machine, whoever's it is
            Field kept = XxlJobFileAppender.class.getDeclaredField("callbackLogPath");
            kept.setAccessible(true);
            kept.set(null, new File(DIR, "callbacks").getPath());
        } catch (NoSuchFieldException others) {
            // keep it beside their logs
        }
        XxlJobSimpleExecutor e = new XxlJobSimpleExecutor();
        e.setAdminAddresses(System.getenv("ADMIN"));
        e.setAccessToken(System.getenv("ACCESS_TOKEN"));
        e.setAppname(System.getenv("APP"));
        e.setIp("127.0.0.1");
        e.setPort(Integer.parseInt(System.getenv("PORT")));
        e.setLogPath(new File(DIR, "logs").getPath());
        e.setLogRetentionDays(7);
        e.setXxlJobBeanList(List.of(new Executor()));
        Runtime.getRuntime().addShutdownHook(new Thread(e::destroy));
        e.start();
        Thread.currentThread().join();
    }
}
