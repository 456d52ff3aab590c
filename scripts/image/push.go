package main

import (
	"fmt"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// push pushes the image and then its referrers, with the credentials in Docker's or
// podman's configuration.
func (i *image) push(tag name.Tag) error {
	auth := remote.WithAuthFromKeychain(authn.DefaultKeychain)
	if err := remote.WriteIndex(tag, i.index, auth); err != nil {
		return fmt.Errorf("pushing %s: %w", tag, err)
	}
	for _, artifact := range i.referrers() {
		digest, err := artifact.Digest()
		if err != nil {
			return err
		}
		if err := remote.Write(tag.Digest(digest.String()), artifact, auth); err != nil {
			return fmt.Errorf("pushing a bill of materials or the provenance of %s: %w", tag, err)
		}
	}
	return nil
}
