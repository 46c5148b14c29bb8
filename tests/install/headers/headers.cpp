#include "all_headers.h"

int main() {
  zero1::TrainConfig config;
  config.train_iters = 1;
  return zero1::train(zero1::resolve(config)).steps == 1 ? 0 : 1;
}
