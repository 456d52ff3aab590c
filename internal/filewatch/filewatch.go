// Package filewatch reports changes of files by inotify(7). It follows symbolic links,
// which Kubernetes replaces to update the files of a volume. A Watcher uses no CPU
// while nothing changes, because its read waits in the runtime's poller.
package filewatch

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// watchedEvents are the events that can change the content of a file: a writer closes
// the file, or a name in its directory is created, deleted or moved. Kubernetes replaces
// a symbolic link by moving another name over it.
const watchedEvents = unix.IN_CLOSE_WRITE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_CREATE | unix.IN_DELETE |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR

// Watcher reports changes in the directories of a set of files. Its methods must not be
// called concurrently.
type Watcher struct {
	file    *os.File
	watches map[int]struct{}
	// changed has capacity 1. While the channel contains a value, further changes do not
	// add another one.
	changed chan struct{}
}

// New returns a Watcher without files. Call Close to free its resources.
func New() (*Watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watching files: %w", err)
	}
	w := &Watcher{file: os.NewFile(uintptr(fd), "inotify"), watches: map[int]struct{}{}, changed: make(chan struct{}, 1)}
	go w.read()
	return w, nil
}

// Changed returns a channel that receives a value after changes in the watched
// directories. One value can report several changes, also of other files in these
// directories. Therefore read the files to see whether they have changed.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

func (w *Watcher) read() {
	b := make([]byte, 4<<10)
	for {
		if _, err := w.file.Read(b); err != nil {
			return
		}
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
}

// Watch replaces the set of watched directories. For each file, it watches the directory
// in the file's path. If that directory does not exist, it watches the nearest existing
// parent. If the path contains symbolic links, it also watches the directory of the file
// to which they lead. Call Watch again after each change, because the links may have new
// targets.
func (w *Watcher) Watch(files []string) error {
	raw, err := w.file.SyscallConn()
	if err != nil {
		return fmt.Errorf("watching files: %w", err)
	}
	var failed error
	if err := raw.Control(func(fd uintptr) {
		wanted := map[int]struct{}{}
		for _, dir := range watchedDirs(files) {
			wd, err := unix.InotifyAddWatch(int(fd), dir, watchedEvents)
			if err != nil {
				failed = fmt.Errorf("watching %s: %w", dir, err)
				continue
			}
			wanted[wd] = struct{}{}
		}
		for wd := range w.watches {
			if _, ok := wanted[wd]; !ok {
				// Ignore the error, because the kernel itself removes the watch of a
				// deleted directory.
				_, _ = unix.InotifyRmWatch(int(fd), uint32(wd))
			}
		}
		w.watches = wanted
	}); err != nil {
		return fmt.Errorf("watching files: %w", err)
	}
	return failed
}

func watchedDirs(files []string) []string {
	var dirs []string
	for _, file := range files {
		dirs = append(dirs, nearestExisting(filepath.Dir(file)))
		if real, err := filepath.EvalSymlinks(file); err == nil {
			dirs = append(dirs, filepath.Dir(real))
		}
	}
	return dirs
}

// nearestExisting returns dir or its nearest existing parent.
func nearestExisting(dir string) string {
	for {
		if info, err := os.Stat(dir); err == nil && info.IsDir() || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// Close stops watching and frees the resources of w.
func (w *Watcher) Close() { _ = w.file.Close() }
