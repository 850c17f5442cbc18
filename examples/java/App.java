import com.xxl.job.core.context.XxlJobHelper;
import com.xxl.job.core.executor.impl.XxlJobSimpleExecutor;
import com.xxl.job.core.handler.annotation.XxlJob;
import java.util.List;

/** An executor with xxl-job-core, without Spring. It also compiles with versions 2.3.1 and 2.4.2. */
public class App {
    @XxlJob("nightly")
    public void nightly() {
        XxlJobHelper.log("the log of this run");
        XxlJobHelper.handleSuccess("done: " + XxlJobHelper.getJobParam());
    }

    public static void main(String[] args) throws Exception {
        var env = System.getenv();
        XxlJobSimpleExecutor executor = new XxlJobSimpleExecutor();
        executor.setAdminAddresses(env.getOrDefault("SERVER", "http://127.0.0.1:7700"));
        executor.setAccessToken(env.get("JAVA_TOKEN"));
        executor.setAppname("java");
        executor.setIp("127.0.0.1");
        executor.setPort(Integer.parseInt(env.getOrDefault("PORT", "9996")));
        executor.setLogPath("logs");
        executor.setLogRetentionDays(7);
        executor.setXxlJobBeanList(List.of(new App()));
        Runtime.getRuntime().addShutdownHook(new Thread(executor::destroy));
        executor.start();
        Thread.currentThread().join();
    }
}
