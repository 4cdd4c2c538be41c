% A room with a lamp, seen through a lens. SunflowLoad puts spheres and a mesh into it.
image {
  resolution 64 48
  aa 0 1
  samples 2
  contrast 0.1
  filter mitchell
}

trace-depths {
  diff 1
  refl 3
  refr 2
}

camera {
  type thinlens
  eye    0 -9 3.5
  target 0 0 1
  up     0 0 1
  fov    50
  aspect 1.3333
  fdist  9
  lensr  0.05
}

shader {
  name walls
  type diffuse
  diff { "sRGB nonlinear" 0.8 0.75 0.7 }
}

shader {
  name clay
  type phong
  diff { "sRGB nonlinear" 0.7 0.3 0.2 }
  spec { "sRGB nonlinear" 0.6 0.6 0.6 } 40
  samples 0
}

shader {
  name metal
  type mirror
  refl { "sRGB nonlinear" 0.7 0.75 0.8 }
}

shader {
  name glass
  type glass
  eta 1.5
  color { "sRGB nonlinear" 0.9 0.95 1.0 }
}

light {
  type point
  color { "sRGB nonlinear" 1 0.95 0.9 }
  power 120.0
  p -3 -5 7
}

light {
  type meshlight
  name lamp
  emit { "sRGB nonlinear" 1 1 1 }
  radiance 12
  samples 4
  points 4
    -1 -1 6.5
    -1  1 6.5
     1  1 6.5
     1 -1 6.5
  triangles 2
    0 1 2
    0 2 3
}

object {
  shader walls
  type plane
  p 0 0 0
  n 0 0 1
}

object {
  shader walls
  type plane
  p 0 6 0
  n 0 -1 0
}

object {
  shader metal
  transform {
    rotatex 70
    translate 0 1 1.2
  }
  type torus
  name ring
  r 0.25 1.1
}
