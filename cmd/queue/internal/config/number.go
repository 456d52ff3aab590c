package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// errNotAccepted says that a value is not what its setting accepts, and that there is no more to say.
var errNotAccepted = errors.New("not accepted")

// parseWhole reads plain decimal digits: no sign, no base prefix, no underscore, no leading zero. It saturates at math.MaxInt64.
func parseWhole(text string) (int64, bool) {
	if text == "" || len(text) > 1 && text[0] == '0' {
		return 0, false
	}
	var n int64
	for i := 0; i < len(text); i++ {
		digit := int64(text[i]) - '0'
		if digit < 0 || digit > 9 {
			return 0, false
		}
		if n > (math.MaxInt64-digit)/10 {
			n = math.MaxInt64
			continue
		}
		n = n*10 + digit
	}
	return n, true
}

// portValue is a port that always listens, or is always dialled.
type portValue int

func (v *portValue) set(text string) error {
	n, ok := parseWhole(text)
	if !ok || n < 1 || n > 65535 {
		return errNotAccepted
	}
	*v = portValue(n)
	return nil
}
func (v *portValue) text() string  { return strconv.Itoa(int(*v)) }
func (*portValue) accepts() string { return "a port number from 1 to 65535" }
func (*portValue) hint() string    { return "PORT" }

// optionalPortValue is a port that 0 turns off.
type optionalPortValue int

func (v *optionalPortValue) set(text string) error {
	n, ok := parseWhole(text)
	if !ok || n > 65535 {
		return errNotAccepted
	}
	*v = optionalPortValue(n)
	return nil
}
func (v *optionalPortValue) text() string  { return strconv.Itoa(int(*v)) }
func (*optionalPortValue) accepts() string { return "a port number from 1 to 65535, or 0 for off" }
func (*optionalPortValue) hint() string    { return "PORT" }

// countValue is a whole number from 0 to most.
type countValue struct {
	field *int
	most  int
}

func (v countValue) set(text string) error {
	n, ok := parseWhole(text)
	if !ok || n > int64(v.most) {
		return errNotAccepted
	}
	*v.field = int(n)
	return nil
}
func (v countValue) text() string    { return strconv.Itoa(*v.field) }
func (v countValue) accepts() string { return fmt.Sprintf("a whole number from 0 to %d", v.most) }
func (countValue) hint() string      { return "N" }

// rateValue is a share from 0 to 1. An exponent is allowed: programs print small rates as 1e-05.
type rateValue float64

func (v *rateValue) set(text string) error {
	if text[0] < '0' || text[0] > '9' || strings.Trim(text, "0123456789.eE+-") != "" {
		return errNotAccepted
	}
	rate, err := strconv.ParseFloat(text, 64)
	if err != nil || !(rate >= 0 && rate <= 1) {
		return errNotAccepted
	}
	*v = rateValue(rate)
	return nil
}
func (v *rateValue) text() string  { return strconv.FormatFloat(float64(*v), 'g', -1, 64) }
func (*rateValue) accepts() string { return "a number from 0 to 1" }
func (*rateValue) hint() string    { return "RATE" }

type boolValue bool

func (v *boolValue) set(text string) error {
	b, err := strconv.ParseBool(text)
	if err != nil {
		return errNotAccepted
	}
	*v = boolValue(b)
	return nil
}
func (v *boolValue) text() string  { return strconv.FormatBool(bool(*v)) }
func (*boolValue) accepts() string { return "true or false" }
func (*boolValue) hint() string    { return "" }
