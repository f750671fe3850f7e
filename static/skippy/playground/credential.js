/* What this page shows /v1: a pass for one of the user's keys, renewed as it ends, or a key that was pasted. The
   latter is in this object and in its field, and nowhere else. */
import { Problem } from "./problem.js";

const MARGIN_MS = 30_000;
const UNREACHABLE = "The server cannot be reached. Is it running?";

export class Credential {
  #url;
  #token;
  #keyId = "";
  #pasted = "";
  #pass = "";
  #endsTs = 0;

  constructor({ url, token }) {
    this.#url = url;
    this.#token = token;
  }

  useKey(keyId) {
    [this.#keyId, this.#pasted, this.#pass] = [keyId, "", ""];
  }

  usePasted(text) {
    [this.#keyId, this.#pasted, this.#pass] = ["", text.trim(), ""];
  }

  get isPass() {
    return this.#keyId !== "";
  }

  get isThere() {
    return this.isPass || this.#pasted !== "";
  }

  /** Raises Problem. `isFresh`: the pass that there is was refused. */
  async text({ isFresh = false } = {}) {
    if (!this.isPass) return this.#pasted;
    if (isFresh || this.#pass === "" || Date.now() > this.#endsTs) await this.#renew();
    return this.#pass;
  }

  async #renew() {
    const keyId = this.#keyId;
    const askedTs = Date.now();
    const response = await reach(this.#url, {
      method: "POST",
      headers: { "X-CSRFToken": this.#token },
      body: new URLSearchParams({ key: keyId }),
      redirect: "manual",
    });
    if (response.type === "opaqueredirect" || !isJson(response))
      throw new Problem({ status: 401, message: "You are not logged in any more. Load this page again." });
    if (!response.ok) throw await Problem.ofResponse(response);
    const told = await response.json();
    if (this.#keyId !== keyId) return;
    this.#pass = told.pass;
    this.#endsTs = askedTs + 1000 * told.lifetime_s - MARGIN_MS;
  }
}

const isJson = (response) => (response.headers.get("content-type") ?? "").includes("json");

/** fetch, whose failures are Problems; what was aborted stays an AbortError. */
export const reach = async (url, options) => {
  try {
    return await fetch(url, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ message: UNREACHABLE });
  }
};
