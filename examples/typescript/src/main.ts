// Runs a worker with the workflow of this example, starts it once, and prints its result as
// JSON. Arguments: the agent, and the prompt.
import { randomUUID } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import { NativeConnection, Worker } from '@temporalio/worker';
import { addUp } from './workflows';

const taskQueue = 'example-typescript';
const csv = 'name,amount\nrent,1200\nfood,300\n';

async function main(agent = 'claude', prompt = 'Add up the column amount of report.csv.') {
  const address = process.env.TEMPORAL_ADDRESS ?? '127.0.0.1:7233';
  const namespace = process.env.TEMPORAL_NAMESPACE ?? 'default';
  const apiKey = process.env.TEMPORAL_API_KEY;
  const access = apiKey ? { address, apiKey, tls: false } : { address };
  const worker = await Worker.create({
    connection: await NativeConnection.connect(access),
    namespace,
    taskQueue,
    workflowsPath: require.resolve('./workflows'),
  });
  const client = new Client({ connection: await Connection.connect(access), namespace });
  const report = await worker.runUntil(
    client.workflow.execute(addUp, { taskQueue, workflowId: `add-up-${randomUUID()}`, args: [agent, csv, prompt] }),
  );
  console.log(JSON.stringify(report));
}

main(...process.argv.slice(2)).catch((err) => {
  console.error(err);
  process.exit(1);
});
