package app

import (
	"cmp"
	"net/http"
	"net/http/pprof"
)

// openProfiling serves pprof where profiling is enabled, on all addresses
// unless PROFILING_ADDRESS narrows it.
func (p *App) openProfiling() error {
	if !p.cfg.Profiling {
		return nil
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	address := cmp.Or(p.cfg.ProfilingAddress, p.cfg.ListenAddress)
	return p.side.open(address, p.cfg.ProfilingPort, "PROFILING_PORT", mux)
}
