package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// The host stage tells the other stages these paths, in environment variables.
const (
	stateVariable  = "QUEUEGATE_CLUSTER_STATE" // state directory, a tmpfs in the namespaces
	logsVariable   = "QUEUEGATE_CLUSTER_LOGS"  // directory that is kept after a failure
	cgroupVariable = "QUEUEGATE_CLUSTER_CGROUP"
)

// outside builds the node and runs the tests in new namespaces. Then it removes the run's
// cgroups and its directory. After a failure it keeps the logs in the directory.
func outside(options Options) (code int, err error) {
	if missing := missing(options); len(missing) > 0 {
		fmt.Printf("cluster: SKIPPED, nothing was tested: %s\n", strings.Join(missing, "; "))
		return 0, nil
	}
	if reason := declined(); reason != "" {
		fmt.Printf("cluster: SKIPPED, nothing was tested: %s\n", reason)
		return 0, nil
	}
	began := time.Now()
	sweep()
	name := fmt.Sprintf("%s%d", namePrefix, os.Getpid())
	directory := filepath.Join(os.TempDir(), name)
	state, logs, images := filepath.Join(directory, "state"), filepath.Join(directory, "logs"), filepath.Join(directory, "images")
	if err := errors.Join(os.MkdirAll(state, 0o700), os.MkdirAll(logs, 0o755), os.MkdirAll(images, 0o755)); err != nil {
		return 0, err
	}
	defer func() {
		removeCgroups(name)
		if code == 0 && err == nil {
			os.RemoveAll(directory)
		} else {
			os.RemoveAll(images)
			fmt.Fprintln(os.Stderr, "cluster: logs of the node are in", logs)
		}
	}()
	built, err := build(images, options)
	if err != nil {
		return 0, err
	}
	fmt.Printf("cluster: built in %.1f s\n", time.Since(began).Seconds())

	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	init := exec.Command("/proc/self/exe", os.Args[1:]...)
	init.Stdout, init.Stderr = os.Stdout, os.Stderr
	init.Env = append(os.Environ(), stageVariable+"=init", stateVariable+"="+state, logsVariable+"="+logs, cgroupVariable+"="+name)
	init.Env = append(init.Env, built...)
	init.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
	}
	// The kernel sends Pdeathsig when the thread that started the process ends, even if
	// the other threads of this process continue. So keep this thread until the end.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := init.Start(); err != nil {
		return 0, fmt.Errorf("entering namespaces: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- init.Wait() }()
	select {
	case err = <-done:
	case s := <-interrupted:
		init.Process.Kill()
		<-done
		return 1, fmt.Errorf("ended by signal: %v", s)
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() > 0 {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// declined returns the reason to skip the tests on a machine that could run them, or ""
// to run them. QUEUEGATE_CLUSTER=0 always skips the tests, and another value always runs
// them. Without a value they run, except in CI if the cache does not have the node's
// binary yet. The build of this binary takes more than ten minutes.
func declined() string {
	switch setting := os.Getenv("QUEUEGATE_CLUSTER"); {
	case setting == "0":
		return "QUEUEGATE_CLUSTER=0"
	case setting != "" || os.Getenv("CI") == "":
		return ""
	}
	if built, err := nodeIsBuilt(); err != nil || !built {
		return "the node is not built yet, which takes more than ten minutes: QUEUEGATE_CLUSTER=1 builds it"
	}
	return ""
}

// missing lists the requirements that this machine does not meet.
func missing(options Options) []string {
	var list []string
	if os.Geteuid() != 0 {
		list = append(list, "root is required")
	}
	type program struct{ command, pkg string }
	needed := []program{
		{"containerd", "containerd"}, {"ctr", "containerd"}, {"runc", "runc"},
		{"iptables", "iptables"}, {"conntrack", "conntrack"}, {"ip", "iproute2"},
	}
	if options.Prometheus {
		needed = append(needed, program{"prometheus", "prometheus"})
	}
	for _, c := range needed {
		if _, err := exec.LookPath(c.command); err != nil {
			list = append(list, fmt.Sprintf("no command %s (Debian: %s)", c.command, c.pkg))
		}
	}
	if pluginDirectory() == "" {
		list = append(list, "no CNI plugin bridge (Debian: containernetworking-plugins)")
	}
	return list
}

// pluginDirectory returns the directory of the CNI plugins, or "".
func pluginDirectory() string {
	for _, d := range []string{"/usr/lib/cni", "/opt/cni/bin"} {
		if _, err := os.Stat(filepath.Join(d, "bridge")); err == nil {
			return d
		}
	}
	return ""
}
