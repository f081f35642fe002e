#include "server/cli/verbs.h"

namespace belfry::cli {

std::vector<std::unique_ptr<Verb>> AllVerbs() {
  std::vector<std::unique_ptr<Verb>> verbs;
  for (auto make : {MakeModels, MakeShow, MakeLoad, MakeUnload, MakeInfer, MakeBench, MakeCards,
                    MakeHealth, MakeMetadata, MakeDrain, MakeCompile}) {
    verbs.push_back(make());
  }
  return verbs;
}

}  // namespace belfry::cli
