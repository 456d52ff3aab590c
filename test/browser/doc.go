// Package browser opens the status page of the real binary in headless Chromium, and
// checks what the page shows under load and for a container that fails on demand.
//
// The variable CHROMIUM is the command of the browser. By default it is chromium,
// chromium-browser or google-chrome in PATH. QUEUEGATE_BINARY is the gate's binary. If it
// is not set, the tests build the gate. SCREENSHOTS is a directory for screenshots.
//
// This is a separate module, so that the gate's module does not depend on the browser
// client.
package browser
