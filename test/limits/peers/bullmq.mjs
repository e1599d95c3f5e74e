// The client processes of BullMQ: node bullmq.mjs work|submit DIRECTORY, the directory that has node_modules.
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'
import http from 'node:http'

const [role, directory] = process.argv.slice(2)
const { Queue, Worker } = createRequire(`${directory}/`)('bullmq')
const env = process.env
const keys = env.LIMITS_KEYS.split(',')
const limits = JSON.parse(env.LIMITS_LIMITS)
const [host, port] = env.LIMITS_ADDR.split(':')
const agent = new http.Agent({ keepAlive: true })
const connection = { host, port: Number(port) }
process.on('unhandledRejection', (e) => console.error('unhandled', e.message))

function call(job, signal) {
  const q = new URLSearchParams({ key: job.key, job: job.id, units: job.units, ms: job.ms, worker: env.LIMITS_WORKER })
  return new Promise((resolve, reject) => {
    const request = http.request(`${env.LIMITS_PROVIDER}/call?${q}`, { method: 'POST', agent, signal }, (answer) => {
      let text = ''
      answer.on('data', (d) => { text += d })
      answer.on('end', () => resolve(Number(text)))
      answer.on('error', reject)
    })
    request.on('error', reject)
    request.end()
  })
}

const lastErrors = new Map()
function note(e) {
  const now = Date.now()
  if (now - (lastErrors.get(e.message) ?? 0) > 5000) console.error(new Date().toISOString(), e.message)
  lastErrors.set(e.message, now)
}

async function work() {
  const workers = keys.map((key) => {
    const worker = new Worker(key, (job, token, signal) => call(job.data, signal),
      { connection, concurrency: limits.Concurrency, lockDuration: 10000, stalledInterval: 5000 })
    worker.on('error', note)
    worker.on('lockRenewalFailed', (ids) => { for (const id of ids) worker.cancelJob(id, 'lock lost') })
    return worker
  })
  await Promise.all(workers.map((w) => w.waitUntilReady()))
  console.log('ready')
  process.on('SIGTERM', async () => {
    await Promise.all(workers.map((w) => w.close()))
    process.exit(0)
  })
}

async function submit() {
  const queues = new Map()
  for (const key of keys) {
    const queue = new Queue(key, { connection, defaultJobOptions: { attempts: 20, backoff: 1000 } })
    queue.on('error', note)
    queues.set(key, queue)
    await queue.setGlobalConcurrency(limits.Concurrency)
    await queue.setGlobalRateLimit(limits.Rate, 1000)
  }
  console.log('ready')
  let waiting = []
  createInterface({ input: process.stdin }).on('line', (line) => waiting.push(JSON.parse(line)))
  setInterval(async () => {
    const jobs = waiting
    waiting = []
    const byKey = Map.groupBy ? Map.groupBy(jobs, (j) => j.key) : new Map()
    if (!Map.groupBy) for (const j of jobs) byKey.set(j.key, [...(byKey.get(j.key) ?? []), j])
    await Promise.all([...byKey].map(async ([key, some]) => {
      try {
        await queues.get(key).addBulk(some.map((j) => ({ name: 'call', data: j, opts: { jobId: j.id } })))
        for (const j of some) console.log(j.id)
      } catch (e) {
        note(e)
        waiting.push(...some)
      }
    }))
  }, 50)
}

await (role === 'work' ? work() : submit())
