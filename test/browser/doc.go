// Package browser opens the status page of the real binary in headless Chromium,
// under load and with a container that fails on demand, and reads what people
// would.
//
// Chromium is the command in CHROMIUM, or chromium, chromium-browser or
// google-chrome in PATH. The gate is QUEUEGATE_BINARY, or built from the module
// above. SCREENSHOTS names a directory to leave pictures in. A module of its
// own keeps the browser's client out of the gate's.
package browser
