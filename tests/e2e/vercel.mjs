// Runs one conversation with a tool through Vercel's AI SDK, and prints what it showed and sent.
import { jsonSchema, stepCountIs, streamText, tool } from "ai";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";

const [dialect, url, apiKey, model] = process.argv.slice(2);
const bodies = [];
const errors = [];

function recordingFetch(address, init) {
  bodies.push(JSON.parse(init.body));
  return fetch(address, init);
}

const options = { baseURL: `${url}/v1`, apiKey, fetch: recordingFetch };
const provider =
  dialect === "anthropic"
    ? createAnthropic(options)
    : createOpenAICompatible({ name: "gateway", ...options });
const inputSchema = jsonSchema({ type: "object", properties: { path: { type: "string" } } });
const result = streamText({
  model: provider(model),
  prompt: "Hello",
  maxOutputTokens: 1000,
  maxRetries: 0,
  stopWhen: stepCountIs(3),
  tools: { look: tool({ inputSchema, execute: async ({ path }) => `seen ${path}` }) },
  onError: ({ error }) => errors.push({ type: error.type, message: error.message }),
});
let text = "";
let reasoning = "";
for await (const part of result.fullStream) {
  if (part.type === "text-delta") text += part.text;
  if (part.type === "reasoning-delta") reasoning += part.text;
}
console.log(JSON.stringify({ text, reasoning, errors, bodies }));
