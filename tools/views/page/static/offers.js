// What this page's server offers besides looking: actions, what-ifs, and the weights of plugins. The
// token, which only pages of the same origin can read, goes with each POST.

let asked;

export function offers() {
  asked ??= fetch("offers").then((answer) => (answer.ok ? answer.json() : {})).catch(() => {
    asked = undefined;
    return {};
  });
  return asked;
}

// Posts to the server, which may have started anew since the token was read.
export async function post(path, body) {
  for (let attempt = 0; ; attempt += 1) {
    const { token = "" } = await offers();
    const answer = await fetch(path, { method: "POST", body, headers: { "X-Berth-Token": token } });
    if (answer.status !== 403 || attempt) return answer;
    asked = undefined;
  }
}
