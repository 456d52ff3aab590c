package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
)

// readyDescriptor is the environment variable with which startInBackground tells the gate
// that it starts to report that it serves; its value is readyNumber.
const (
	readyDescriptor = "QUEUEGATE_READY_DESCRIPTOR"
	readyNumber     = "3"
)

// readyPipe is written to when the gate serves; nil = nobody waits.
var readyPipe *os.File

// openReadyPipe takes over the descriptor of startInBackground.
func openReadyPipe() {
	if os.Getenv(readyDescriptor) != readyNumber {
		return
	}
	_ = os.Unsetenv(readyDescriptor)
	syscall.CloseOnExec(3)
	readyPipe = os.NewFile(3, "ready")
}

// reportReady reports that the gate serves.
func reportReady() {
	if readyPipe != nil {
		_, _ = io.WriteString(readyPipe, "\n")
		_ = readyPipe.Close()
	}
}

// startInBackground implements --background: it starts this program with the same arguments
// in a session of its own, waits until the gate serves or has ended, and returns the exit
// code.
func startInBackground(args []string, stderr io.Writer) int {
	code, err := awaitBackground(slices.DeleteFunc(slices.Clone(args), func(arg string) bool {
		name, _, _ := strings.Cut(arg, "=")
		return name == "--background"
	}))
	if err != nil {
		fmt.Fprintln(stderr, "queue:", err)
	}
	return code
}

func awaitBackground(args []string) (code int, err error) {
	path, err := os.Executable()
	if err != nil {
		return exitFailed, fmt.Errorf("starting a gate in the background: %w", err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return exitFailed, fmt.Errorf("starting a gate in the background: %w", err)
	}
	defer null.Close()
	ready, theirs, err := os.Pipe()
	if err != nil {
		return exitFailed, fmt.Errorf("starting a gate in the background: %w", err)
	}
	defer ready.Close()
	child, err := os.StartProcess(path, append([]string{os.Args[0]}, args...), &os.ProcAttr{
		Env:   append(os.Environ(), readyDescriptor+"="+readyNumber),
		Files: []*os.File{null, os.Stdout, os.Stderr, theirs},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	_ = theirs.Close()
	if err != nil {
		return exitFailed, fmt.Errorf("starting a gate in the background: %w", err)
	}
	if n, _ := ready.Read(make([]byte, 1)); n > 0 {
		return exitOK, nil
	}
	state, err := child.Wait()
	if err != nil || state.ExitCode() <= 0 { // ended by a signal, or drained before it served
		return exitFailed, fmt.Errorf("the gate in the background has ended: %v", state)
	}
	return state.ExitCode(), nil // it has logged why
}
