/* What the service keeps of a request: its record, which comes a moment after the answer. The viewer's own alone. */

const TRIES_MS = [0, 300, 700, 1500, 3000];

/** The record, or null where there is none among the viewer's own. */
export const recordOf = async (requestId, userId) => {
  const query = new URLSearchParams({ request_id: requestId, user_id: userId, limit: "1" });
  for (const pause of TRIES_MS) {
    await new Promise((resolve) => setTimeout(resolve, pause));
    try {
      const response = await fetch(`/api/records?${query}`);
      if (!response.ok) return null;
      const { data } = await response.json();
      if (data.length > 0) return data[0];
    } catch {
      /* It may come back. */
    }
  }
  return null;
};
