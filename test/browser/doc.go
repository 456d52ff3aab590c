// Package browser opens the status page of the real binary in headless
// Chromium, under load and with a container that fails on demand, and checks
// what the page shows.
//
// Chromium is the command in CHROMIUM, or chromium, chromium-browser or
// google-chrome in PATH. The gate is QUEUEGATE_BINARY, or is built from the
// module above. SCREENSHOTS names a directory for screenshots. This is a
// separate module, so that the gate's module does not depend on the browser
// client.
package browser
