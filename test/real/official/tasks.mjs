// The official client of the tasks extension at work: it calls tools of the
// endpoint that the command line names, and follows the tasks that they become.
// A line on standard input is a call, the line that answers it what came of it.
import { createInterface } from "node:readline";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createTaskSessionFromClient, resultFromTaskOutcome } from "@modelcontextprotocol/ext-tasks/client";

const [url, identityText] = process.argv.slice(2);
const identity = JSON.parse(identityText); // {info, capabilities, answers: {method: result}}
const protocolVersion = "2026-07-28";

const methods = { elicitation: "elicitation/create", sampling: "sampling/createMessage", roots: "roots/list" };

// wire sends what the SDK's client does not know, as the package wants its host to:
// requests with ids of their own on the client's transport.
function wire(transport) {
  const pending = new Map();
  const theirs = transport.onmessage;
  transport.onmessage = (message, extra) => {
    const settle = pending.get(message.id);
    if (settle === undefined) return theirs?.(message, extra);
    pending.delete(message.id);
    settle(message);
  };
  let last = 0;
  return async (request, { signal, context } = {}) => {
    const id = `task-wire-${(last += 1)}`;
    const answered = new Promise((resolve) => pending.set(id, resolve));
    await transport.send({ jsonrpc: "2.0", id, ...request }, { headers: context?.headers, requestSignal: signal });
    const message = await answered;
    return "error" in message ? { kind: "error", error: message.error } : { kind: "result", result: message.result };
  };
}

// connect returns a session of a client of its own; input is told of each question.
async function connect(asked) {
  const client = new Client(identity.info, {
    capabilities: identity.capabilities,
    versionNegotiation: { mode: { pin: protocolVersion } },
  });
  const transport = new StreamableHTTPClientTransport(new URL(url));
  await client.connect(transport);
  const session = createTaskSessionFromClient(client, {
    endpointId: "real",
    rawDispatch: wire(transport),
    v2RequestFraming: { protocolVersion, clientInfo: identity.info, clientCapabilities: identity.capabilities },
    onInputRequest: async (request, context) => {
      const method = methods[request.kind];
      asked.push({ method, params: request.params ?? {}, by: context.delivery });
      if (!(method in identity.answers)) throw new Error(`there is no answer to ${method}`);
      return identity.answers[method];
    },
    onError: (error) => console.error(error),
  });
  return {
    session,
    end: async () => {
      await session.close();
      await client.close();
    },
  };
}

// call calls a tool and follows it to its end; with leave, another client goes on
// with the task by what the first one has written down.
async function call({ name, arguments: args, leave }) {
  const asked = [];
  const seen = [];
  const note = (status) => seen.at(-1) === status || seen.push(status);
  let at = await connect(asked);
  try {
    let execution = await at.session.callTool(name, args);
    if (execution.kind !== "task") return { kind: execution.kind };
    if (leave) {
      let reference;
      await execution.handoff((r) => {
        reference = JSON.stringify(r);
      });
      await at.end();
      at = await connect(asked);
      execution = await at.session.resumeTask(JSON.parse(reference));
    }
    const onEvent = (event) => event.type === "task" && note(event.task.status);
    const { outcome } = await execution.settle({ onEvent });
    note(outcome.status);
    return { kind: "task", seen, asked, result: resultFromTaskOutcome(outcome) };
  } finally {
    await at.end();
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  let said;
  try {
    said = await call(JSON.parse(line));
  } catch (error) {
    said = { failure: `${error}${error.cause ? `: ${error.cause}` : ""}` };
  }
  process.stdout.write(`${JSON.stringify(said)}\n`);
}
