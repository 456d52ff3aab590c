package cluster

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// reap is process 1 of the new namespaces. It mounts file systems, starts the inside
// stage, reaps orphaned processes, and exits after the inside stage. The kernel then
// kills all other processes in the namespaces.
func reap() (code int, err error) {
	if err := mounts(os.Getenv(stateVariable)); err != nil {
		return 0, err
	}
	environment := []string{stageVariable + "=inside"}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, stageVariable+"=") {
			environment = append(environment, v)
		}
	}
	child, err := os.StartProcess("/proc/self/exe", os.Args, &os.ProcAttr{Env: environment, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return 0, err
	}
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, fmt.Errorf("waiting: %w", err)
		case pid == child.Pid && status.Exited():
			return status.ExitStatus(), nil
		case pid == child.Pid:
			return 0, fmt.Errorf("the tests ended with %v", status.Signal())
		}
	}
}

// mounts mounts /proc, and tmpfs directories for the state of the node's programs.
func mounts(state string) error {
	type mount struct {
		source, target, kind string
		flags                uintptr
	}
	list := []mount{
		{"", "/", "", syscall.MS_REC | syscall.MS_PRIVATE},
		{"proc", "/proc", "proc", syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC},
		{"tmpfs", state, "tmpfs", 0},
		{"tmpfs", "/run", "tmpfs", 0},
		{"tmpfs", "/var/log", "tmpfs", 0},
		{"tmpfs", "/var/lib/kubelet", "tmpfs", 0},
		{"tmpfs", "/var/lib/cni", "tmpfs", 0},
	}
	for _, m := range list {
		// The mount point remains as an empty directory.
		if err := os.MkdirAll(m.target, 0o755); err != nil {
			return err
		}
		if err := syscall.Mount(m.source, m.target, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", m.target, err)
		}
	}
	// Containers must see the kubelet's volumes, so mounts propagate.
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SHARED, ""); err != nil {
		return fmt.Errorf("sharing mounts: %w", err)
	}
	return syscall.Sethostname([]byte("node"))
}
