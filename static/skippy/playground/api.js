/* Requests to /v1. */
import { reach } from "./credential.js";
import { Problem } from "./problem.js";

/** An id for a request, which the service keeps. (`randomUUID` is for TLS alone.) */
export const newRequestId = () => {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
};

/** The response, which is 2xx. Raises Problem. A pass that is refused is renewed once: its session may have a new key. */
export const ask = async (url, credential, { body = null, signal = null, requestId = newRequestId() } = {}) => {
  const send = async (secret) => {
    const headers = { Authorization: `Bearer ${secret}`, "X-Request-Id": requestId };
    if (body === null) return reach(url, { headers, signal });
    headers["Content-Type"] = "application/json";
    return reach(url, { method: "POST", headers, body: JSON.stringify(body), signal });
  };
  let response = await send(await credential.text());
  if (response.status === 401 && credential.isPass) response = await send(await credential.text({ isFresh: true }));
  if (!response.ok) throw await Problem.ofResponse(response);
  return response;
};
