import com.amazonaws.services.dynamodbv2.local.main.ServerRunner;
import com.amazonaws.services.dynamodbv2.local.server.DynamoDBProxyServer;
import java.lang.reflect.Field;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;

/** Starts DynamoDB Local on the loopback interface: it has no option for that. */
public class Loopback {
    public static void main(String[] args) throws Exception {
        DynamoDBProxyServer proxy = ServerRunner.createServerFromCommandLineArgs(args);
        for (Field f : DynamoDBProxyServer.class.getDeclaredFields()) {
            if (f.getType() == Server.class) {
                f.setAccessible(true);
                for (var c : ((Server) f.get(proxy)).getConnectors()) {
                    ((ServerConnector) c).setHost("127.0.0.1");
                }
            }
        }
        proxy.start();
        proxy.join();
    }
}
