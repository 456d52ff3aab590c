package torture

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/queuegate/queuegate/internal/testkit"
	"github.com/queuegate/queuegate/test/internal/launch"
)

var (
	queueBinary, containerBinary string

	seed = rand.Uint64()

	// scale multiplies all counts; 1 = a full run.
	scale = 20.0 / 300

	// longer multiplies the duration of floods.
	longer = 1.0
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(attackersMode); mode != "" {
		if err := beAttackers(mode); err != nil {
			fmt.Fprintln(os.Stderr, "attackers:", err)
			os.Exit(1)
		}
		return
	}
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		code = 1
	}
	os.Exit(code)
}

func runAll(m *testing.M) (code int, err error) {
	if text := os.Getenv("SEED"); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			return 0, fmt.Errorf("SEED=%q: %w", text, err)
		}
	}
	if text := os.Getenv("TORTURE_TIME"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return 0, fmt.Errorf("TORTURE_TIME=%q: want a duration above 0", text)
		}
		scale, longer = min(1, d.Minutes()/5), max(1, d.Minutes()/6)
	}
	if err := launch.RaiseFileLimit(); err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "torture")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if containerBinary, err = launch.Build(dir, "./test/torture/container"); err != nil {
		return 0, err
	}
	if queueBinary, err = launch.GateBinary(dir); err != nil {
		return 0, err
	}
	code = m.Run()
	report(os.Stdout)
	return code, nil
}

// scaled returns the product of full and the variable scale. If the product is smaller
// than the parameter least, the result is the value of this parameter.
func scaled(full, least int) int { return max(least, int(float64(full)*scale)) }

// scaledTime returns the product of the duration full and the variable scale. If the
// product is shorter than the parameter least, the result is the value of this parameter.
func scaledTime(full, least time.Duration) time.Duration {
	return max(least, time.Duration(float64(full)*scale))
}

// random returns the random source of an actor, which the seed determines.
func random(experiment string, actor int) *rand.Rand {
	h := uint64(actor)
	for _, b := range []byte(experiment) {
		h = h*1099511628211 + uint64(b)
	}
	return rand.New(rand.NewPCG(seed, h))
}

func randomIn(rng *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(rng.Int64N(int64(high-low)))
}

func must(t *testing.T, err error) { t.Helper(); testkit.Must(t, err) }
