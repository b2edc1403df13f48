// Keeps the page's own files, so that it opens without a network.
const CACHE = "demo";

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(keepWhatIsOpen()));

self.addEventListener("fetch", (event) => {
  const own = new URL(event.request.url).origin === location.origin;
  if (own && event.request.method === "GET") event.respondWith(fresh(event.request));
});

async function fresh(request) {
  const cache = await caches.open(CACHE);
  try {
    const response = await fetch(request);
    if (response.ok) await cache.put(request, response.clone());
    return response;
  } catch {
    return (await cache.match(request, { ignoreSearch: true })) ?? Response.error();
  }
}

/** The page that registers this has loaded its files before. */
async function keepWhatIsOpen() {
  await self.clients.claim();
  const cache = await caches.open(CACHE);
  const modules = "client clock database dating http index merge operation queue schema states sync wire".split(" ");
  await cache.addAll(["./", "demo.js", "demo.css", ...modules.map((name) => `../dist/${name}.js`)]);
}
