//! Submits, works and completes a job by the client that openapi-generator generated: URL QUEUE.

use openapi::apis::{configuration::Configuration, jobs_api, workers_api, Error};
use openapi::models::{Acquire, JobSpec, LeaseCompletion, WorkerSpec};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let (queue, secret) = (&args[2], Some("0123456789abcdef"));
    let c = Configuration { base_path: args[1].clone(), ..Default::default() };

    let spec = JobSpec { queue: Some(Some(queue.clone())), r#type: Some(Some("t".into())), ..Default::default() };
    jobs_api::submit_job(&c, queue, spec).await?;
    println!("{:?}", jobs_api::get_job(&c, queue, None, None, None).await?.state);

    let worker = WorkerSpec { queues: Some(Some(vec![queue.clone()])), slots: Some(Some(1)), ..Default::default() };
    let ask = Acquire { worker: Some(Some(Box::new(worker))), wait_ms: Some(Some(8000)), ..Default::default() };
    let got = workers_api::acquire_leases(&c, queue, ask, secret).await?;
    for lease in got.leases.unwrap_or_default() {
        let done = LeaseCompletion { token: Some(Some(lease.token)), job: Some(Some(queue.clone())), ..Default::default() };
        workers_api::complete_lease(&c, queue, &lease.lease, done, secret).await?;
    }
    if let Err(Error::ResponseError(e)) = jobs_api::get_job(&c, &format!("{queue}-none"), None, None, None).await {
        if let Some(jobs_api::GetJobError::Status4XX(problem)) = e.entity {
            println!("problem {}", problem.kind);
        }
    }
    Ok(())
}
