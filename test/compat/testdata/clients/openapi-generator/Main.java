import java.util.List;
import org.openapitools.client.*;
import org.openapitools.client.api.*;
import org.openapitools.client.model.*;

/** Submits, works and completes a job by the client that openapi-generator generated: URL QUEUE. */
public class Main {
    public static void main(String[] args) throws Exception {
        String url = args[0], queue = args[1], secret = "0123456789abcdef";
        ApiClient client = new ApiClient();
        client.updateBaseUri(url);
        JobsApi jobs = new JobsApi(client);
        WorkersApi workers = new WorkersApi(client);

        jobs.submitJob(queue, new JobSpec().queue(queue).type("t").payload("hello"));
        System.out.println(jobs.getJob(queue, null, null, null).getState());

        WorkerSpec worker = new WorkerSpec().queues(List.of(queue)).slots(1);
        Acquired got = workers.acquireLeases(queue, new Acquire().worker(worker).waitMs(8000L), secret);
        for (GivenLease lease : got.getLeases()) {
            LeaseCompletion done = new LeaseCompletion().token(lease.getToken()).job(lease.getJob().getId()).output("done");
            workers.completeLease(queue, lease.getLease(), done, secret);
        }
        System.out.println(jobs.getJob(queue, null, null, "10s").getState());
        try {
            jobs.getJob(queue + "-none", null, null, null);
        } catch (ApiException e) {
            System.out.println("problem " + client.getObjectMapper().readValue(e.getResponseBody(), Problem.class).getKind());
        }
    }
}
