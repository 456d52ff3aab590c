package application

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// fakeGroups creates the files of control groups v2 for the gate's group /pod, and
// returns the arguments of NewFreezer.
func fakeGroups(t *testing.T, files ...string) (root, groups, mounts string) {
	t.Helper()
	root = t.TempDir()
	for _, name := range files {
		path := filepath.Join(root, strings.ReplaceAll(name, "PID", strconv.Itoa(os.Getpid())))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	groups, mounts = filepath.Join(root, "groups"), filepath.Join(root, "mounts")
	for path, text := range map[string]string{
		groups: "0::/pod\n", mounts: "22 1 8:1 / / rw - ext4 /dev/sda rw\n30 22 0:26 / " + root + " rw,nosuid - cgroup2 cgroup2 rw\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root, groups, mounts
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func TestTheApplicationStartsInItsOwnCgroupAndIsFrozenThere(t *testing.T) {
	root, groups, mounts := fakeGroups(t, "pod/cgroup.procs", "pod/queuegate-PID/cgroup.procs", "pod/queuegate-PID/cgroup.freeze",
		"pod/queuegate-999999999/cgroup.freeze") // left by a killed gate
	f, err := NewFreezer(groups, mounts)
	if err != nil {
		t.Fatal(err)
	}
	group := filepath.Join(root, "pod", groupPrefix+strconv.Itoa(os.Getpid()))
	for _, dir := range []string{group, filepath.Join(root, "pod", "queuegate-999999999")} {
		if got := read(t, filepath.Join(dir, "cgroup.freeze")); got != "0" {
			t.Errorf("%s: not thawed at the start: %q", dir, got)
		}
	}
	pid, err := f.fork(func() (int, error) {
		if here, back := read(t, filepath.Join(group, groupMembers)), read(t, filepath.Join(root, "pod", groupMembers)); here != "0" || back != "" {
			t.Errorf("the gate is not in the application's group at the fork: %q, %q", here, back)
		}
		return 7, nil
	})
	if back := read(t, filepath.Join(root, "pod", groupMembers)); pid != 7 || err != nil || back != "0" {
		t.Errorf("pid %d, %v, back %q", pid, err, back)
	}
	for range 2 {
		if err := f.Freeze(); err != nil || read(t, filepath.Join(group, "cgroup.freeze")) != "1" {
			t.Errorf("not frozen, %v", err)
		}
		if err := f.Thaw(); err != nil || read(t, filepath.Join(group, "cgroup.freeze")) != "0" {
			t.Errorf("not thawed, %v", err)
		}
	}
}

func TestACgroupThatCannotFreezeTheApplicationIsAnError(t *testing.T) {
	for want, files := range map[string][]string{
		"no such file or directory":       {"other"}, // the gate's group has no directory
		"cgroup.procs: no such file":      {"pod/queuegate-PID/cgroup.freeze", "pod/queuegate-PID/cgroup.procs"},
		"cgroup.freeze: no such file":     {"pod/cgroup.procs", "pod/queuegate-PID/cgroup.procs"}, // before Linux 5.2
		"not a directory":                 {"pod"},
		"PID/cgroup.procs: no such file ": {"pod/cgroup.procs", "pod/queuegate-PID/cgroup.freeze"},
	} {
		_, groups, mounts := fakeGroups(t, files...)
		want = strings.TrimSpace(strings.ReplaceAll(want, "PID", strconv.Itoa(os.Getpid())))
		if f, err := NewFreezer(groups, mounts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v, want %q", f, err, want)
		}
	}
	root, groups, mounts := fakeGroups(t, "pod/cgroup.procs")
	if err := os.WriteFile(mounts, []byte("22 1 8:1 / / rw - ext4 /dev/sda rw\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err := NewFreezer(groups, mounts); err == nil || err.Error() != "no cgroup file system with a freezer is mounted" {
		t.Errorf("%v, %v in %s", f, err, root)
	}
}

func TestTheDirectoryOfACgroupIsFoundBelowTheMountOfItsHierarchy(t *testing.T) {
	const (
		v2     = "30 22 0:26 ROOT /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
		cpu    = "31 22 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
		v1     = "32 22 0:28 ROOT /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n"
		groups = "9:name=systemd:/s\n6:cpu,freezer:/a/b\n1:cpu:/c\n0::/d/e\n"
	)
	for _, c := range []struct {
		mounts, root string
		version      *freezerVersion
		want         string
	}{
		{cpu + v2, "/", freezerV2, "/sys/fs/cgroup/d/e"},
		{cpu + v2, "/d", freezerV2, "/sys/fs/cgroup/e"},
		{cpu + v2, "/d/e", freezerV2, "/sys/fs/cgroup"},
		{cpu + v1, "/", freezerV2, ""},
		{cpu + v1, "/", freezerV1, "/sys/fs/cgroup/freezer/a/b"},
		{cpu + v1, "/a/b", freezerV1, "/sys/fs/cgroup/freezer"},
		{cpu + v1, "/a/bcd", freezerV1, "/sys/fs/cgroup/freezer/a/b"},
		{cpu + v2, "/", freezerV1, ""},
		{"", "/", freezerV1, ""},
	} {
		if got := groupDir(groups, strings.ReplaceAll(c.mounts, "ROOT", c.root), c.version); got != c.want {
			t.Errorf("root %s, %s: %q, want %q", c.root, c.version.file, got, c.want)
		}
	}
}

// TestTheKernelFreezesAndThawsAProcess tests each mounted and writable version of
// control groups.
func TestTheKernelFreezesAndThawsAProcess(t *testing.T) {
	for version, state := range map[*freezerVersion]struct{ kind, file, frozen string }{
		freezerV2: {" - cgroup2 ", "cgroup.events", "frozen 1"},
		freezerV1: {" - cgroup ", "freezer.state", "FROZEN"},
	} {
		t.Run(version.file, func(t *testing.T) {
			var mounts string
			for line := range strings.Lines(read(t, "/proc/self/mountinfo")) {
				if strings.Contains(line, state.kind) {
					mounts += line
				}
			}
			path := filepath.Join(t.TempDir(), "mounts")
			if err := os.WriteFile(path, []byte(mounts), 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := NewFreezer("/proc/self/cgroup", path)
			if err != nil {
				t.Skip("no freezer that this process may use: ", err)
			}
			cat := exec.Command("cat")
			in, _ := cat.StdinPipe()
			out, _ := cat.StdoutPipe()
			if _, err := f.fork(func() (int, error) { return 0, cat.Start() }); err != nil {
				f.Close()
				t.Skip("no process can be moved to the group: ", err)
			}
			defer f.Close()
			defer func() {
				_ = cat.Process.Kill()
				_ = f.Thaw()
				_ = cat.Wait()
			}()
			if members := read(t, filepath.Join(f.dir, groupMembers)); members != strconv.Itoa(cat.Process.Pid) {
				t.Errorf("the group contains %q, the process is %d", members, cat.Process.Pid)
			}
			replies := bufio.NewReader(out)
			for range 3 {
				if err := f.Freeze(); err != nil {
					t.Fatal(err)
				}
				for deadline := time.Now().Add(10 * time.Second); !strings.Contains(read(t, filepath.Join(f.dir, state.file)), state.frozen); time.Sleep(time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatal("not frozen")
					}
				}
				if _, err := in.Write([]byte("line\n")); err != nil {
					t.Fatal(err)
				}
				if err := f.Thaw(); err != nil {
					t.Fatal(err)
				}
				if line, err := replies.ReadString('\n'); err != nil || line != "line\n" {
					t.Fatalf("%q, %v", line, err)
				}
			}
		})
	}
}
