import { executeChild, workflowInfo } from '@temporalio/workflow';
import type { JobInput, JobResult } from './job';

export interface Report {
  total: number;
  sessionId: string;
  costUSD?: number;
}

interface Total {
  total: number;
}

const schema = {
  type: 'object',
  required: ['total'],
  properties: { total: { type: 'number' } },
};

// addUp has an agent add up the numbers of a table, and takes a number from it, not a text.
export async function addUp(agent: string, csv: string, prompt: string): Promise<Report> {
  const job: JobInput = {
    options: { agent, limits: { costUSD: 1 } },
    prompt,
    files: [{ path: 'report.csv', text: csv }],
    schema,
  };
  const done: JobResult<Total> = await executeChild('AgentJob', {
    taskQueue: 'sojourn',
    workflowId: `${workflowInfo().workflowId}-total`,
    args: [job],
  });
  return { total: done.value!.total, sessionId: done.sessionId, costUSD: done.costUSD };
}
