package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// ErrNoCounter says that this machine has no means to count system calls from
// outside.
var ErrNoCounter = errors.New("counting system calls needs perf and access to its event raw_syscalls:sys_enter")

// attachTimeout bounds how long perf may take to begin.
const attachTimeout = 5 * time.Second

// CountSyscalls counts the system calls that the processes enter, in all their
// threads, while the function runs. Without perf or the right to use it, the
// function does not run and the error wraps ErrNoCounter.
func CountSyscalls(ctx context.Context, pids []int, during func() error) (int64, error) {
	perf, err := exec.LookPath("perf")
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNoCounter, err)
	}
	list := make([]string, len(pids))
	for i, pid := range pids {
		list[i] = strconv.Itoa(pid)
	}
	// perf begins disabled and says over a pipe when it has begun to count.
	commandRead, command, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer command.Close()
	ack, ackWrite, err := os.Pipe()
	if err != nil {
		commandRead.Close()
		return 0, err
	}
	defer ack.Close()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, perf, "stat", "-x", ",", "-e", "raw_syscalls:sys_enter",
		"-D", "-1", "--control", "fd:3,4", "-p", strings.Join(list, ","))
	cmd.Stdout, cmd.Stderr = &out, &out // perf stat reports on standard error
	cmd.ExtraFiles = []*os.File{commandRead, ackWrite}
	cmd.WaitDelay = time.Second
	err = cmd.Start()
	commandRead.Close()
	ackWrite.Close()
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNoCounter, err)
	}
	if err := enable(command, ack); err != nil {
		cmd.Process.Kill()
		_ = cmd.Wait()
		return 0, fmt.Errorf("%w: perf stat: %w: %s", ErrNoCounter, err, firstLine(out.Bytes()))
	}
	failed := during()
	_ = cmd.Process.Signal(os.Interrupt)
	_ = cmd.Wait() // perf ends by the signal it was sent; its output tells
	if failed != nil {
		return 0, failed
	}
	n, err := parsePerf(out.String())
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNoCounter, err)
	}
	return n, nil
}

func enable(command, ack *os.File) error {
	if _, err := command.WriteString("enable\n"); err != nil {
		return err
	}
	if err := ack.SetReadDeadline(time.Now().Add(attachTimeout)); err != nil {
		return err
	}
	answer := make([]byte, 16)
	n, err := ack.Read(answer)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(string(answer[:n]), "ack") {
		return fmt.Errorf("said %q", answer[:n])
	}
	return nil
}

// parsePerf takes the count out of a line of perf stat -x, such as
// "1234,,raw_syscalls:sys_enter,1001,100.00,,".
func parsePerf(out string) (int64, error) {
	for line := range strings.Lines(out) {
		fields := strings.Split(line, ",")
		if len(fields) < 3 || !strings.HasPrefix(fields[2], "raw_syscalls:sys_enter") {
			continue
		}
		n, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("perf stat counted %q", fields[0])
		}
		return n, nil
	}
	return 0, fmt.Errorf("perf stat printed no count: %s", firstLine([]byte(out)))
}

func firstLine(out []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
}
