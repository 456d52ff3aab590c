// Hungry is an application that allocates memory at /memory until the kernel kills it.
package main

import (
	"fmt"
	"net/http"
	"os"
)

var allocated [][]byte

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "well") })
	http.HandleFunc("/memory", func(w http.ResponseWriter, r *http.Request) {
		for range 1024 { // 1 GiB in total, if the container's memory limit allows that
			page := make([]byte, 1<<20)
			for i := 0; i < len(page); i += 4096 {
				page[i] = 1
			}
			allocated = append(allocated, page)
		}
	})
	fmt.Fprintln(os.Stderr, http.ListenAndServe("127.0.0.1:8080", nil))
	os.Exit(1)
}
