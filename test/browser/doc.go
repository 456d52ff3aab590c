// Package browser opens the status page of the real binary in headless Chromium, and
// checks what the page shows under load and for a container that fails on demand.
//
// Chromium is the command in CHROMIUM, or chromium, chromium-browser or google-chrome in
// PATH. The gate is QUEUEGATE_BINARY, or is built. SCREENSHOTS is a directory for
// screenshots. This is a separate module, so that the gate's module does not depend on
// the browser client.
package browser
