package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
)

// readyDescriptor is an environment variable that startInBackground sets for the new
// gate. Its value is the number of the ready pipe's descriptor. The new gate writes to
// this pipe when it serves.
const (
	readyDescriptor = "QUEUEGATE_READY_DESCRIPTOR"
	readyNumber     = "3"
)

// readyPipe is the pipe that reports to startInBackground that this gate serves. It is
// nil if startInBackground has not started this process.
var readyPipe *os.File

func openReadyPipe() {
	if os.Getenv(readyDescriptor) != readyNumber {
		return
	}
	_ = os.Unsetenv(readyDescriptor)
	syscall.CloseOnExec(3)
	readyPipe = os.NewFile(3, "ready")
}

func reportReady() {
	if readyPipe != nil {
		_, _ = io.WriteString(readyPipe, "\n")
		_ = readyPipe.Close()
	}
}

// startInBackground implements --background: it starts this program in a separate
// session, waits until the gate serves or has ended, and returns the exit code.
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
	ready, childEnd, err := os.Pipe()
	if err != nil {
		return exitFailed, fmt.Errorf("starting a gate in the background: %w", err)
	}
	defer ready.Close()
	child, err := os.StartProcess(path, append([]string{os.Args[0]}, args...), &os.ProcAttr{
		Env:   append(os.Environ(), readyDescriptor+"="+readyNumber),
		Files: []*os.File{null, os.Stdout, os.Stderr, childEnd},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	_ = childEnd.Close()
	if err != nil {
		return exitFailed, fmt.Errorf("starting a gate in the background: %w", err)
	}
	if n, _ := ready.Read(make([]byte, 1)); n > 0 {
		return exitOK, nil
	}
	state, err := child.Wait()
	// The exit code is -1 if a signal has ended the gate, and 0 if the gate has drained
	// before it served. The caller gets exitFailed in both cases.
	if err != nil || state.ExitCode() <= 0 {
		return exitFailed, fmt.Errorf("the gate in the background has ended: %v", state)
	}
	return state.ExitCode(), nil // the gate has logged the reason
}
