/* An error of the API as it was told: status, code, message, and when to come back. */

export class Problem extends Error {
  constructor({ status = 0, code = "", message = "", param = "", retryAfter = "", requestId = "" }) {
    super(message);
    Object.assign(this, { status, code, param, retryAfter, requestId });
  }

  /** What a frame within a stream said. */
  static inStream(error, requestId) {
    return new Problem({ ...shape(error), requestId });
  }

  static async ofResponse(response) {
    const requestId = response.headers.get("x-request-id") ?? "";
    const retryAfter = response.headers.get("retry-after") ?? "";
    let error = {};
    try {
      error = shape((await response.json()).error);
    } catch {
      error = { message: "The answer was no error of ours: does something stand between this page and the service?" };
    }
    return new Problem({ ...error, status: response.status, retryAfter, requestId });
  }
}

const text = (value) => (value === null || value === undefined ? "" : String(value));
const shape = (error) => ({ code: text(error?.code), message: text(error?.message), param: text(error?.param) });
